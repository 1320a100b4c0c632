"""Many batches of one queue at once, in order by message group."""

import asyncio
import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_sdk import ClusterClient, Message, MessageQueue, Producer, PushConsumer, PushSettings
from ariane_sdk.consumer.delivery.grouped_work import GroupedQueueWork, MessageShards
from ariane_sdk.consumer.delivery.holding import Holding
from ariane_sdk.consumer.delivery.queue_work import ListenerParts
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.errors import ConsumptionHeld
from ariane_sdk.message import ReceivedMessage
from sdk.python.tests.consumer.push_side import wait_until

_numbers = itertools.count()


class Stub:
    """A message with nothing but a place and a group."""

    def __init__(self, queue_offset, group):
        self.queue_offset = queue_offset
        self.message_group = group
        self.size_bytes = 1


@given(
    st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=60),
    st.integers(1, 5),
    st.integers(1, 4),
    st.data(),
)
def test_shards_keep_the_order_of_groups_and_the_smallest_offset(groups, batch, loops, data):
    window, shards = QueueWindow(0), MessageShards()
    window.put([Stub(place, group) for place, group in enumerate(groups)], len(groups))
    given_, done, in_work = [], set(), []
    while len(done) < len(groups):
        while len(in_work) < loops:
            if not shards.ready_count:
                delivery = window.take(data.draw(st.integers(1, 20)))
                if delivery is None:
                    break
                shards.put(delivery)
                continue
            group, shard = shards.take(batch, lambda message: message.queue_offset % 7 == 3)
            offsets = [message.queue_offset for message in shard.messages]
            assert {groups[offset] for offset in offsets} == {group}
            assert len(offsets) == 1 or not any(offset % 7 == 3 for offset in offsets)
            assert group == "" or all(group != other for other, _, _ in in_work)
            given_ += offsets
            in_work.append((group, shard, offsets))
        # The smallest unfinished message is in work, unless all loops have what is left of batches.
        smallest = min(set(range(len(groups))) - done)
        working = {offset for _, _, offsets in in_work for offset in offsets}
        assert smallest in working or len(in_work) == loops
        group, shard, offsets = in_work.pop(data.draw(st.integers(0, len(in_work) - 1)))
        # Of a batch that fails, the first messages may be done long before the rest.
        leading = data.draw(st.integers(0, len(offsets) - 1))
        if leading:
            finished = shards.finish_leading(group, leading)
            in_work.append((group, shard, offsets[leading:]))
        else:
            finished = shards.finish(group, shard)
        for delivery in finished:
            window.finish(delivery)
        done.update(offsets[:leading] if leading else offsets)
        unfinished = [offset for offset in range(len(groups)) if offset not in done]
        assert window.consumer_offset == min(unfinished, default=len(groups))
        assert shards.in_work_count == sum(len(offsets) for _, _, offsets in in_work)
    assert window.consumer_offset == len(groups)
    assert (shards.waiting_count, shards.ready_count) == (0, 0)
    for group in set(groups) - {""}:
        own = [offset for offset in given_ if groups[offset] == group]
        assert own == sorted(own)


class GroupStub(ReceivedMessage):
    """A message with a place and a group that may be tried again."""

    queue_offset = message_group = size_bytes = None

    def __init__(self, queue_offset, group):
        self._header = (0,) * 17
        self.queue_offset = queue_offset
        self.message_group = group
        self.size_bytes = 1


class Patient:
    """Locks that hold, and a group that makes no dead letters."""

    def holds(self, _queue):
        return True

    def new_return_id(self):
        return "r"

    async def attempts_max(self, _queue):
        return None


async def test_finished_messages_of_a_failing_batch_count_for_the_stored_offset():
    given_, goes_on, room = [], asyncio.Event(), []

    async def listen(messages):
        given_.append([message.queue_offset for message in messages])
        if not goes_on.is_set() and any(message.queue_offset == 2 for message in messages):
            raise ValueError("one of them")

    patient = Patient()
    work = GroupedQueueWork(
        MessageQueue("orders", "broker-a", 0),
        0,
        ListenerParts(
            deliver=listen,
            batch_size=3,
            settings=PushSettings(queue_concurrency=2, queue_span_max=2, suspend_s=0.001),
            holding=Holding("g"),
        ),
        on_room=lambda: room.append(work.done_offset),
        returns=patient,
        locks=patient,
    )
    work.window.put([GroupStub(place, group) for place, group in enumerate("abaaa")], 5)
    work.start()
    work.wake()
    try:
        await wait_until(lambda: given_.count([2]) > 1)
        assert work.done_offset == 2, "0 and 1 are done, and come to nobody again"
        assert (work.in_flight_count, work.waiting_count) == (2, 1)
        assert (work.hold.queue_offset, room) == (2, [])
        goes_on.set()
        await wait_until(lambda: work.done_offset == 5)
    finally:
        await work.release(1)
    assert [batch for batch in given_ if 0 in batch] == [[0, 2, 3], [0, 2, 3], [0]]
    assert (given_[-1], room) == ([4], [3]), "the queue is pulled as soon as its span allows"


@pytest.fixture
async def topic(cluster):
    name = f"grouped-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=1)
    return name


async def test_groups_are_at_work_at_once_each_in_its_order(cluster, topic):
    queue = MessageQueue(topic, "broker-a", 0)
    async with Producer(cluster.name_servers) as producer:
        for number in range(90):
            message = Message(topic, b"%d" % number, message_group=f"g{number % 3}")
            await producer.send(message, message_queue=queue)
    done, busy, most_at_once, failures = defaultdict(list), set(), [0], [0]
    goes_on = asyncio.Event()

    async def listen(messages):
        group = messages[0].message_group
        assert {message.message_group for message in messages} == {group}
        assert group not in busy
        busy.add(group)
        most_at_once[0] = max(most_at_once[0], len(busy))
        try:
            if group == "g0" and not goes_on.is_set():
                failures[0] += 1
                raise ValueError("not yet")
            if group == "g1" and len(done["g1"]) == 3 and not failures[0]:
                raise ConsumptionHeld(0.01)
            await asyncio.sleep(0.001)
            done[group] += [int(message.body) for message in messages]
        finally:
            busy.discard(group)

    def consumer():
        return PushConsumer(
            cluster.name_servers,
            group=f"g-{topic}",
            subscriptions={topic: "*"},
            listener=listen,
            start="earliest",
            ordered=True,
            batch_size=3,
            settings=PushSettings(queue_concurrency=8, suspend_s=0.01, handover_s=0.02),
        )

    async with consumer():
        await wait_until(lambda: len(done["g1"]) == len(done["g2"]) == 30 and failures[0] > 2)
    assert done["g0"] == []
    # What is behind the smallest unfinished message comes again.
    goes_on.set()
    async with consumer():
        await wait_until(lambda: len(done["g0"]) == 30)
    for remainder, group in enumerate(("g0", "g1", "g2")):
        expected = list(range(remainder, 90, 3))
        assert list(dict.fromkeys(done[group])) == expected
    assert most_at_once[0] == 3
