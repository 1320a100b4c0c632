"""Many batches of one queue at once, in order by message group."""

import asyncio
import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_sdk import ClusterClient, Message, MessageQueue, Producer, PushConsumer, PushSettings
from ariane_sdk.consumer.delivery.message_shards import MessageShards
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.errors import ConsumptionHeld
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
        # The smallest unfinished message is in work: nothing waits for what is behind it.
        smallest = min(set(range(len(groups))) - done)
        assert smallest in {offset for _, _, offsets in in_work for offset in offsets}
        group, shard, offsets = in_work.pop(data.draw(st.integers(0, len(in_work) - 1)))
        for delivery in shards.finish(group, shard):
            window.finish(delivery)
        done.update(offsets)
        unfinished = [offset for offset in range(len(groups)) if offset not in done]
        assert window.consumer_offset <= min(unfinished, default=len(groups))
        assert shards.in_work_count == sum(len(offsets) for _, _, offsets in in_work)
    assert window.consumer_offset == len(groups)
    assert (shards.waiting_count, shards.ready_count) == (0, 0)
    for group in set(groups) - {""}:
        own = [offset for offset in given_ if groups[offset] == group]
        assert own == sorted(own)


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
