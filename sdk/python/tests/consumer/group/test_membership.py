from types import SimpleNamespace

import pytest

from ariane.broker.v1.client_service_pb2 import GroupMember, Membership
from ariane.common.v1.subscription_pb2 import Subscription
from ariane_record.names import retry_topic
from ariane_sdk import Averaging, Configured, MachineRoom, MessageQueue, errors
from ariane_sdk.consumer.group.membership import GroupView
from ariane_sdk.routing.route import BrokerRoute, Route

ROUTES = [
    Route(f"topic-{number}", (BrokerRoute("c", "a", {0: "a:1"}, 4, 4),)) for number in range(500)
]


class ScriptedBrokers:
    """Answers with the members that it was given for each address, and counts."""

    def __init__(self, members):
        self._members = members
        self.asked = []

    async def group_members(self, broker, group):
        self.asked.append(broker.read_address)
        answer = self._members[broker.read_address]
        if isinstance(answer, Exception):
            raise answer
        return answer


def member(client_id, routes):
    subscriptions = [Subscription(topic=route.topic) for route in routes]
    return GroupMember(client_id=client_id, membership=Membership(subscriptions=subscriptions))


def view_of(brokers, client_id="one", strategy=None):
    strategy = strategy or Averaging()
    return GroupView(brokers, SimpleNamespace(group="g", client_id=client_id, strategy=strategy))


async def test_a_broker_is_asked_once_for_the_members_of_all_topics():
    brokers = ScriptedBrokers({"a:1": [member("one", ROUTES), member("two", ROUTES[:1])]})

    shares = await view_of(brokers).shares(ROUTES)

    assert brokers.asked == ["a:1"]
    assert [len(share.queues) for share in shares] == [2] + [4] * 499
    assert [share.member_count for share in shares] == [2] + [1] * 499


async def test_a_topic_whose_brokers_do_not_answer_keeps_everything_as_it_is():
    elsewhere = Route("topic-b", (BrokerRoute("c", "b", {0: "b:1"}, 4, 4),))
    silent = errors.DeadlinePassed("no answer in time")
    known = [member("one", [*ROUTES, elsewhere])]
    both = Route("topic-0", (*ROUTES[0].brokers, *elsewhere.brokers))

    assert len(await view_of(ScriptedBrokers({"a:1": known, "b:1": silent})).shares([both])) == 1
    with pytest.raises(errors.DeadlinePassed):
        await view_of(ScriptedBrokers({"a:1": known, "b:1": silent})).shares([both, elsewhere])
    with pytest.raises(errors.CallError, match="no broker of topic 'dead' is known to live"):
        await view_of(ScriptedBrokers({})).shares([Route("dead", ())])


async def test_a_broker_that_has_just_restarted_hides_no_member_that_others_know():
    brokers = {name: BrokerRoute("c", name, {0: f"{name}:1"}, 4, 4) for name in "abcd"}
    route = Route("topic-0", tuple(brokers.values()))
    all_members = [member(client_id, [route]) for client_id in ("one", "three", "two")]
    scripted = ScriptedBrokers({"a:1": all_members[:1], "b:1": all_members, "c:1": []})

    (share,) = await view_of(scripted).shares([route])

    assert sorted(scripted.asked) == ["a:1", "b:1", "c:1"]
    assert (share.member_count, len(share.queues)) == (3, 6)


async def test_a_member_waits_until_brokers_know_it():
    brokers = ScriptedBrokers({"a:1": [member("one", ROUTES[1:]), member("two", ROUTES)]})

    assert await view_of(brokers).shares(ROUTES) is None
    assert await view_of(brokers).shares([]) == []


@pytest.mark.parametrize(
    "strategy",
    [MachineRoom(["north"]), Configured([MessageQueue("orders", "a", 0)])],
    ids=lambda strategy: strategy.name,
)
async def test_all_that_failed_comes_again_even_where_queues_have_no_owner(strategy):
    brokers = (
        BrokerRoute("c", "a", {0: "a:1"}, 1, 1, zone="north"),
        BrokerRoute("c", "b", {0: "b:1"}, 1, 1, zone="south"),
    )
    routes = [Route(topic, brokers) for topic in ("orders", retry_topic("g"))]
    known = [member("one", routes), member("two", routes)]
    scripted = ScriptedBrokers({"a:1": known, "b:1": known})

    owned = {"orders": [], retry_topic("g"): []}
    for client_id in ("one", "two"):
        for share in await view_of(scripted, client_id, strategy).shares(routes):
            for queue in share.queues:
                owned[queue.topic].append(queue.broker_name)

    # One member fails on messages of a room that it consumed while its own was empty.
    assert {topic: sorted(set(names)) for topic, names in owned.items()} == {
        "orders": ["a"],
        retry_topic("g"): ["a", "b"],
    }
    assert len(owned[retry_topic("g")]) == 2
