"""A pull of many queues with much in them leaves the loop to others in between."""

import asyncio

import pytest

from ariane_broker.read import queue_looks
from ariane_broker.read.queue_looks import TURN_BYTES_MAX

QUEUES = 16
COUNT, BODY_BYTES = 100, 1024
READ_BYTES_MAX = COUNT * (BODY_BYTES + 200)
"""What a queue has: it is read as a whole."""


@pytest.fixture
def turns(monkeypatch):
    """The bytes that each turn of the loop has read."""
    reads, turns = [0], []
    read, run = queue_looks.QueueLooks._read, asyncio.events.Handle._run

    def counted_read(looks, *arguments):
        found = read(looks, *arguments)
        reads[0] += sum(map(len, found.chunks))
        return found

    def counted_run(handle):
        before = reads[0]
        run(handle)
        turns.append(reads[0] - before)

    monkeypatch.setattr(queue_looks.QueueLooks, "_read", counted_read)
    monkeypatch.setattr(asyncio.events.Handle, "_run", counted_run)
    return turns


async def test_a_turn_reads_so_many_bytes_and_an_answer_all_the_same(broker, turns):
    await broker.create_topic("orders", QUEUES)
    for queue_id in range(QUEUES):
        await broker.store("orders", [bytes(BODY_BYTES)] * COUNT, queue_id)
    positions = [("orders", queue_id, 0) for queue_id in range(QUEUES)]
    pulled = await broker.pull(*positions, size_bytes_max=4 << 20)
    assert {queue.next_queue_offset for queue in pulled} == {COUNT}
    assert max(turns) < TURN_BYTES_MAX + READ_BYTES_MAX
