"""Who reads replies by a client id, and for how long it is his."""

from __future__ import annotations

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.common.v1.subscription_pb2 import (
    FILTER_KIND_SQL92,
    FILTER_KIND_TAG,
    FilterExpression,
    Subscription,
)
from ariane_servicekit.security.gate import own_replies as module
from ariane_servicekit.security.gate.own_replies import ReplyReaders, own_replies
from ariane_testkit.virtual_clock import VirtualClock

TOPIC = "c_REPLY_TOPIC"


def pull(topics=(TOPIC,), client_id="id", tag="id", kind=FILTER_KIND_TAG, group="ARIANE_REPLIES"):
    filters = FilterExpression(kind=kind, text=tag)
    return pull_pb.PullRecordsRequest(
        consumer_group=group,
        client_id=client_id,
        positions=[pull_pb.PullPosition(topic=each, queue_id=q) for each in topics for q in (0, 1)],
        subscriptions=[Subscription(topic=topic, filter=filters) for topic in topics],
    )


def test_only_a_pull_by_the_own_tag_is_one_of_own_replies():
    assert own_replies(pull()) == ("id", {TOPIC})
    assert own_replies(pull_pb.StreamPullsRequest(pull=pull())) == ("id", {TOPIC})
    mixed, twice, everything = pull(), pull(), pull()
    mixed.positions.add(topic="orders")
    twice.subscriptions.add(topic=TOPIC)
    everything.subscriptions[0].ClearField("filter")
    for other in (
        pull(group="g"),
        pull(topics=("orders",)),
        pull(topics=(TOPIC, "orders")),
        pull(topics=()),
        pull(client_id=""),
        pull(client_id="*", tag="*"),
        pull(client_id=" * ", tag=" * "),
        pull(client_id=" ", tag=" "),
        # A tag expression is read without the spaces around it: it is the other client's.
        pull(client_id=" id", tag=" id"),
        pull(client_id="id\u3000", tag="id\u3000"),
        pull(client_id="a||b", tag="a||b"),
        pull(tag="other"),
        pull(kind=FILTER_KIND_SQL92),
        *(mixed, twice, everything),
        pull_pb.PullRangeRequest(topic=TOPIC),
        pull_pb.StreamPullsRequest(),
    ):
        assert own_replies(other) is None, other


def test_an_id_is_whose_who_reads_by_it_until_he_is_silent(monkeypatch):
    clock = VirtualClock()
    readers = ReplyReaders(clock.now_ms)
    for _ in range(5):
        assert readers.admits("anna", "id")
        assert not readers.admits("eve", "id")
        clock.advance(100)
    clock.advance(21)
    assert readers.admits("eve", "id")
    assert not readers.admits("anna", "id")
    monkeypatch.setattr(module, "READERS_OF_USER_MAX", 3)
    assert [readers.admits("bert", f"b{n}") for n in range(4)] == [True] * 3 + [False]
    assert readers.admits("anna", "a")
    clock.advance(121)
    assert readers.admits("bert", "b3")
    assert len(readers._readers) == sum(readers._counts.values()) == 1
