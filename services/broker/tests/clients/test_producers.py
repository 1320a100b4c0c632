"""Who sends to which topic, by the calls that arrive."""

from collections import Counter

import pytest

from ariane_broker.clients.producers import PRODUCERS_MAX, SILENCE_MS_MAX, Producers, agent_of

OURS = "ariane-python/0.1.0 client/web@1@9f producer-group/shop ariane-wire/0.1.0"


class Noted:
    def __init__(self):
        self.now_ms = 1_700_000_040_000
        self.producers = Producers(lambda: self.now_ms)

    def note(self, topic, count=1, *, agent=OURS, host="10.0.0.1", port=4711, user="anna"):
        self.producers.note((host, port), agent, [(topic, count)], lambda: user)

    def listed(self, topic=""):
        return [each for each in self.producers.walk(topic) if each is not None]


def test_a_user_agent_says_who_a_client_is():
    assert agent_of(OURS) == ("ariane-python/0.1.0", "web@1@9f", "shop")
    assert agent_of("grpc-go/1.60.0") == ("grpc-go/1.60.0", "", "")
    assert agent_of("") == ("", "", "")


def test_messages_of_a_client_are_counted_by_topic_over_its_connections():
    noted = Noted()
    noted.note("orders", 3)
    noted.now_ms += 1000
    noted.note("orders", 4, port=5000)
    noted.note("payments", port=5000)
    [orders] = noted.listed("orders")
    client = orders.client
    assert (orders.message_count, client.address, client.user) == (7, ("10.0.0.1", 5000), "anna")
    assert orders.last_ms - orders.first_ms == 1000
    assert len(noted.listed()) == 2


def test_others_are_told_apart_by_program_and_host():
    noted = Noted()
    for agent, host in (("grpc-go/1", "a"), ("grpc-go/1", "b"), ("grpc-java/1", "b")):
        noted.note("orders", agent=agent, host=host)
    assert len({each.key for each in noted.listed()}) == 3


@pytest.mark.parametrize(("later_ms", "rate"), [(0, 0.0), (60_000, 2.0), (120_000, 0.0)])
def test_the_rate_is_of_the_last_whole_minute(later_ms, rate):
    noted = Noted()
    noted.note("orders", 50)
    noted.now_ms += 10_000
    noted.note("orders", 70)
    noted.now_ms += later_ms
    [orders] = noted.listed()
    assert orders.per_second(noted.now_ms) == rate


def test_who_is_silent_for_an_hour_is_not_listed():
    noted = Noted()
    noted.note("orders")
    noted.now_ms += SILENCE_MS_MAX + 1
    assert noted.listed() == []


def test_memory_is_bounded_and_the_newest_stay():
    noted = Noted()
    for number in range(PRODUCERS_MAX + 5):
        noted.now_ms += 1
        noted.note("orders", agent=f"a/{number} " + "x" * 10_000)
    noted.note("x" * 1000)
    listed = noted.listed()
    assert len(listed) <= PRODUCERS_MAX
    assert listed[-1].client.agent.name == f"a/{PRODUCERS_MAX + 4}"
    assert all(len(each.topic) < 128 for each in listed)


def test_a_user_with_ever_new_producers_leaves_those_of_others_listed():
    noted = Noted()
    for number in range(5):
        noted.note("orders", agent=f"shop/{number}")
    for number in range(PRODUCERS_MAX + 5):
        noted.now_ms += 1
        noted.note("orders", agent=f"a/{number}", user="mallory")
    users = Counter(each.client.user for each in noted.listed())
    assert users["anna"] == 5
    assert users.total() <= PRODUCERS_MAX
