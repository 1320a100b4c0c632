"""Files of queues are exchanged or damaged beside a running broker: what its callers see."""

import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from structlog.testing import capture_logs

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane_broker.settings import BrokerSettings
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_storage.queues.consume_queue_entry import ENTRY_BYTES

COUNT = 60
FLIGHTS = [b"flight %d" % number for number in range(COUNT)]
DELAYS = [b"delay %d" % number for number in range(COUNT)]


@pytest.fixture(autouse=True)
def written_soon(monkeypatch):
    """Entries are in the files soon; a broker writes them every second."""
    store_config = BrokerSettings.store_config
    monkeypatch.setattr(
        BrokerSettings,
        "store_config",
        lambda settings: replace(store_config(settings), derived_interval_ms=20),
    )


async def written_out(paths):
    """Wait until all entries are in the files."""
    async with asyncio.timeout(60):
        while not all(  # noqa: ASYNC110 - the disk tells nobody
            path.exists() and path.read_bytes()[COUNT * ENTRY_BYTES - 20 :][:20].strip(b"\0")
            for path in paths
        ):
            await asyncio.sleep(0.01)


@pytest.fixture
async def exchanged(broker, tmp_path):
    """A broker under which the files of two queues were exchanged."""
    for flight, delay in zip(FLIGHTS, DELAYS, strict=True):
        await broker.store("orders", [flight])
        await broker.store("other", [delay])
    queues = tmp_path / "store" / "consumequeue"
    paths = [queues / topic / "0" / f"{0:020d}" for topic in ("orders", "other")]
    await written_out(paths)
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        with path.open("r+b") as file:
            file.write(content)
    return broker


async def test_held_pulls_and_ranges_wait_until_queues_are_mended(exchanged):
    request = pull_pb.PullRangeRequest(
        topic="other", queue_id=0, begin_queue_offset=3, end_queue_offset=50
    )

    async def read_range():
        return [chunk async for chunk in exchanged.pulls.PullRange(request)]

    with capture_logs() as lines:
        async with asyncio.timeout(60):
            bodies, chunks = await asyncio.gather(
                exchanged.bodies("orders", queue_offset=5, hold_s=20), read_range()
            )
    assert bodies == FLIGHTS[5:]
    found = []
    for chunk in chunks:
        columns = decode_columns(chunk.records, np.frombuffer(chunk.record_sizes, "<i4"))
        found += [columns.message(place).body for place in range(len(columns))]
    assert found == DELAYS[3:50]
    repaired = [line for line in lines if line["event"] == "queue_repaired"]
    assert sorted((line["topic"], line["restored_count"]) for line in repaired) == [
        ("orders", COUNT),
        ("other", COUNT),
    ]
    assert all(line["lost_count"] == 0 for line in repaired)


async def test_what_cannot_wait_is_told_to_come_again_and_bounds_are_told(exchanged, refused):
    assert await exchanged.pull(("orders", 0, 7)) == []
    found = exchanged.pulls.FindQueueOffsets(
        pull_pb.FindQueueOffsetsRequest(topic="other", time=Timestamp(seconds=1))
    )
    failure = await refused(found)
    assert (failure.reason, failure.code) == ("QUEUE_UNDER_REPAIR", "UNAVAILABLE")
    bounds = pull_pb.ListQueueBoundsRequest(topic="other")
    (queue, *_) = (await exchanged.pulls.ListQueueBounds(bounds)).queues
    assert (queue.min_queue_offset, queue.max_queue_offset) == (0, COUNT)


@pytest.mark.parametrize("parked_by", ["level", "time"])
@pytest.mark.parametrize("damage", ["zeros", "entries of another queue"])
async def test_delayed_messages_come_once_though_their_queue_was_damaged(
    running, clock, tmp_path, parked_by, damage
):
    # Level 8 waits four minutes; so far ahead, nothing of the timer is in memory.
    bodies = [b"%d" % number for number in range(COUNT)]
    due = np.full(1, round(time.time() * 1000) + 240_000, "<i8").tobytes()
    delay = {"delay_level": 8} if parked_by == "level" else {"delivery_times_ms": due}
    async with running() as broker:
        await broker.create_topic("orders")
        for body in bodies:
            await broker.store("other", [body])
            await broker.store("orders", [body], **delay)
        queues = tmp_path / "store" / "consumequeue"
        parked = {"level": f"{DELAY_TOPIC}/7", "time": f"{TIMER_TOPIC}/0"}[parked_by]
        paths = [queues / parked / f"{0:020d}", queues / "other" / "0" / f"{0:020d}"]
        await written_out(paths)
        content = bytes(COUNT * ENTRY_BYTES) if damage == "zeros" else paths[1].read_bytes()
        with paths[0].open("r+b") as file:
            file.write(content)
        clock.advance(240)
        async with asyncio.timeout(60):
            while len(found := await broker.bodies("orders")) < COUNT:  # noqa: ASYNC110 - polls
                await asyncio.sleep(0.02)
    assert sorted(found) == sorted(bodies)
