"""Members that start together agree where their group begins; queues that come later are new."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from ariane_sdk import MessageQueue, errors
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.offsets.group_start import AWAY_WAIT_S, BEGIN_S, GroupStart

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = (SimpleNamespace(broker_name=name) for name in ("broker-a", "broker-b"))
QA, QB = (MessageQueue("orders", each.broker_name, 0) for each in (A, B))
END = 70
FIRST = 10
"""Offsets of the newest and the oldest message."""


class Cluster:
    """Two brokers of a topic, and all that a member asks them."""

    def __init__(self):
        self.offsets = {}
        self.away = set()
        self.left = frozenset()
        self.knows_all = False
        self.queues = (QA, QB)
        self.now_s = 0.0
        self.asked_since = []

    def monotonic_s(self):
        return self.now_s

    def member(self, start="latest"):
        starts = GroupStart(self, self, self.route, group="g", start=start, clock=self)
        starts.note_topics({"orders"})
        return starts

    def route(self, topic):
        if topic == "orders" and self.queues:
            return SimpleNamespace(read_queues=self.queues, brokers=(A, B), away_brokers=self.left)
        return None

    def answer(self, broker):
        if broker.broker_name in self.away:
            raise errors.ServiceUnavailable("away", retriable=True)

    async def load(self, broker, queues):
        self.answer(broker)
        return {
            queue: QueuePosition(self.offsets[queue]) for queue in queues if queue in self.offsets
        }

    async def has_any(self, broker, queues):
        return bool(await self.load(broker, queues))

    async def begin(self, broker, offsets):
        self.answer(broker)
        for queue, position in offsets.items():
            self.offsets.setdefault(queue, position.queue_offset)

    async def queue_bounds(self, broker, _topic):
        self.answer(broker)
        bounds = SimpleNamespace(min_queue_offset=FIRST, max_queue_offset=END, log_epoch=0)
        return [(queue, bounds) for queue in self.queues if queue.broker_name == broker.broker_name]

    async def broker_time(self, broker, _topic):
        self.answer(broker)
        return NOW

    async def queue_offsets_at(self, broker, topic, when, _boundary):
        self.asked_since.append(when)
        return {queue: QueuePosition(50) for queue, _ in await self.queue_bounds(broker, topic)}


@pytest.fixture
def cluster():
    return Cluster()


def offsets(begun):
    found, unknown = begun
    assert not unknown
    return {queue: position.queue_offset for queue, position in found.items()}


async def test_the_first_member_of_a_group_begins_in_all_queues_of_the_topic(cluster):
    assert offsets(await cluster.member().begin(A, [QA])) == {QA: END}
    assert cluster.offsets == {QA: END, QB: END}


async def test_a_member_that_starts_while_another_begins_waits_for_it(cluster):
    # The other one has begun at the first broker, and its call to the second is under way.
    cluster.offsets = {QA: 40}
    member = cluster.member()
    assert offsets(await member.begin(B, [QB])) == {}
    await cluster.begin(B, {QB: QueuePosition(41)})
    assert offsets(await member.begin(B, [QB])) == {QB: 41}


async def test_a_queue_that_stays_without_an_offset_was_added(cluster):
    cluster.offsets = {QA: 40}
    member = cluster.member()
    assert offsets(await member.begin(A, [QA])) == {QA: 40}
    cluster.now_s += BEGIN_S
    assert offsets(await member.begin(B, [QB])) == {QB: FIRST}


async def test_no_member_begins_while_a_broker_that_may_know_the_group_is_away(cluster):
    cluster.offsets, cluster.away = {QA: 40}, {A.broker_name}
    member = cluster.member()
    with pytest.raises(errors.ServiceUnavailable):
        await member.begin(B, [QB])
    assert QB not in cluster.offsets


async def test_a_group_whose_only_broker_has_left_is_not_taken_for_new(cluster, caplog):
    cluster.queues, cluster.left = (QB,), frozenset({A.broker_name})
    member = cluster.member()
    with pytest.raises(errors.ServiceUnavailable):
        await member.begin(B, [QB])
    cluster.now_s += AWAY_WAIT_S
    assert offsets(await member.begin(B, [QB])) == {}, "another member may begin now"
    cluster.now_s += BEGIN_S
    assert offsets(await member.begin(B, [QB])) == {QB: FIRST}
    waits, begins = [each.getMessage() for each in caplog.records]
    assert "not known while broker-a is away" in waits
    assert "begins at the first message" in begins


async def test_a_member_that_keeps_all_offsets_itself_waits_for_no_broker(cluster):
    cluster.queues, cluster.left, cluster.knows_all = (QB,), frozenset({A.broker_name}), True
    member = cluster.member()
    assert offsets(await member.begin(B, [QB])) == {QB: END}
    cluster.queues, cluster.left = (QA, QB), frozenset()
    cluster.now_s += 3.0
    assert offsets(await member.begin(A, [QA])) == {QA: 50}
    assert cluster.asked_since == [NOW - timedelta(seconds=3)], "its queues are no new ones"


async def test_a_group_that_is_new_begins_as_it_is_told_once_the_broker_is_back(cluster):
    cluster.queues, cluster.left = (QB,), frozenset({A.broker_name})
    member = cluster.member()
    with pytest.raises(errors.ServiceUnavailable):
        await member.begin(B, [QB])
    cluster.queues, cluster.left = (QA, QB), frozenset()
    cluster.now_s += 3.0
    assert offsets(await member.begin(B, [QB])) == {QB: 50}
    assert cluster.asked_since == [NOW - timedelta(seconds=3)] * 2, "what came meanwhile counts"


async def test_known_queues_begin_while_a_broker_of_another_topic_is_away(cluster):
    known = MessageQueue("invoices", A.broker_name, 0)
    cluster.offsets, cluster.away = {known: 40}, {B.broker_name}
    assert offsets(await cluster.member().begin(A, [known, QA])) == {known: 40}
    assert QA not in cluster.offsets


async def test_a_broker_that_fails_meanwhile_is_begun_as_of_the_start(cluster, monkeypatch):
    member = cluster.member()
    is_consumed = member._is_consumed

    async def then_away(topic):
        answer = await is_consumed(topic)
        cluster.away = {B.broker_name}
        return answer

    monkeypatch.setattr(member, "_is_consumed", then_away)
    assert offsets(await member.begin(A, [QA])) == {QA: END}
    cluster.away = set()
    cluster.now_s = 7.0
    assert offsets(await member.begin(B, [QB])) == {QB: 50}
    assert cluster.asked_since == [NOW - timedelta(seconds=7)]


async def test_a_topic_that_comes_after_the_start_is_wanted_from_the_start_on(cluster):
    queues, cluster.queues = cluster.queues, ()
    member = cluster.member()
    cluster.queues, cluster.now_s = queues, 3.0
    assert offsets(await member.begin(A, [QA])) == {QA: 50}
    assert cluster.asked_since == [NOW - timedelta(seconds=3)] * 2


async def test_all_of_a_topic_that_was_made_anew_is_wanted(cluster):
    member = cluster.member()
    await member.begin(A, [QA])
    cluster.offsets.clear()
    assert offsets(await member.begin(A, [QA])) == {QA: 50}
    cluster.offsets = {QA: 3, QB: 3}
    successor = cluster.member()
    await successor.begin(A, [QA])
    cluster.offsets.clear()
    cluster.now_s += BEGIN_S
    assert offsets(await successor.begin(A, [QA])) == {QA: FIRST}


async def test_unknown_queues_are_named(cluster):
    gone = MessageQueue("orders", "broker-a", 9)
    found, unknown = await cluster.member().begin(A, [QA, gone])
    assert found.keys() == {QA}
    assert unknown == {gone}


async def test_the_oldest_needs_nobody_else(cluster):
    cluster.away = {B.broker_name}
    assert offsets(await cluster.member("earliest").begin(A, [QA])) == {QA: FIRST}
