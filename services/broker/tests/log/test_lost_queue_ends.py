"""The last messages of a queue are lost to damage before its files knew of them.

The log goes on behind the damage, so that nothing was cut; but the next messages of the queue get
the queue offsets of the lost ones, and nothing that was said of these holds for them.
"""

import asyncio
import json
import time

import numpy as np
import pytest

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from services.broker.tests.receive.receive_calls import Receiver, bodies
from services.broker.tests.retry.test_redrive_calls import dead_letters, redrive_call

DAY_MS = 86_400_000


@pytest.fixture
def log_only(running, monkeypatch):
    """A broker that makes its log durable, and writes no queue file."""
    monkeypatch.setattr("ariane_broker.log.room.FLUSH_TICK_SECONDS", 3600)

    def run(**changes):
        rare = {"producer_save_s": 3600, "flush_interval_ms": 3_600_000}
        return running(flush_mode="sync", **(rare | changes))

    return run


@pytest.fixture
def spoiled(log_only, copy_store):
    """A broker after a crash, when the disk has spoilt a record with each of some bodies."""

    def run(*spoilt, **changes):
        copy = copy_store()
        assert not [path for path in (copy / "consumequeue").rglob("*") if path.is_file()]
        (segment,) = (copy / "commitlog").glob("00000000000000000000")
        content = bytearray(segment.read_bytes())
        for body in spoilt:
            place = content.index(body)
            content[place : place + len(body)] = b"#" * len(body)
        segment.write_bytes(content)
        return log_only(store_path=copy, **changes)

    return run


async def snapshot_says(path, wanted):
    """Wait for a snapshot."""
    async with asyncio.timeout(60):
        while not (path.exists() and wanted(json.loads(path.read_text()))):  # noqa: ASYNC110 - a disk.
            await asyncio.sleep(0.02)


async def findings(broker):
    state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return " ".join(state.recovery_findings)


async def received_six(broker, settled):
    """Six messages are received, and some settled; the others stay in hand."""
    await broker.create_topic("orders")
    await broker.store("orders", [b"body %d" % number for number in range(6)])
    received = await Receiver(broker).receive(invisible_s=600)
    chosen = [received[number] for number in settled]
    assert await Receiver(broker).ack(*chosen) == [True] * len(chosen)


@pytest.mark.parametrize("settled", [(0,), (0, 1, 2, 5), (0, 1, 2, 3, 5), range(6)])
@pytest.mark.parametrize("saved", [False, True], ids=["log", "snapshot"])
async def test_what_was_received_of_lost_messages_counts_for_no_later_ones(
    log_only, spoiled, copy_store, tmp_path, settled, saved
):
    async with log_only(producer_save_s=0.05 if saved else 3600) as broker:
        await received_six(broker, settled)
        if saved:
            path, unsettled = tmp_path / "store/config/receiving.json", 6 - len(settled)
            await snapshot_says(
                path, lambda said: said["windows"] and rows_of(said["windows"][0]) == unsettled
            )
        floor = min(set(range(5)) - {*settled} or {4})
        in_hand = len({0, 1, 2, 3} - {*settled})
        async with spoiled(b"body 4", b"body 5") as later:
            assert (await later.store("orders", [b"new 4", b"new 5"])).first_queue_offset == 4
            # The process dies before anything of this is in a snapshot.
            copy_store("copy", "image")
            two = Receiver(later)
            assert bodies(await two.receive(invisible_s=600)) == ["new 4", "new 5"]
            assert await two.standing() == [(floor, 2 + in_hand, 2 + in_hand, 0, 0)]
            assert await later.known_offset("billing", "orders") == floor
            assert ("queues: beyond the end" in await findings(later)) == (len(settled) == 6)
        async with log_only(store_path=tmp_path / "image") as last:
            assert bodies(await Receiver(last).receive()) == ["new 4", "new 5"]


def rows_of(window):
    return len(window[-1]) * 3 // 4 // 48


def times(*times_ms):
    return np.array(times_ms, "<i8").tobytes()


async def comes(broker, count):
    """The messages of a topic, once there are so many."""
    async with asyncio.timeout(60):
        while len(found := await broker.bodies("orders")) < count:  # noqa: ASYNC110 - a broker.
            await asyncio.sleep(0.02)
    return found


async def test_a_delivery_of_a_lost_message_is_none_of_a_later_one(
    log_only, spoiled, copy_store, tmp_path
):
    now_ms = time.time_ns() // 1_000_000
    async with log_only(producer_save_s=0.05) as broker:
        await broker.create_topic("orders")
        await broker.store(
            "orders",
            [b"late", b"early 1", b"early 2"],
            delivery_times_ms=times(now_ms + DAY_MS, now_ms, now_ms),
        )
        assert await comes(broker, 2) == [b"early 1", b"early 2"]
        path = tmp_path / "store/config/timerProgress.json"
        await snapshot_says(path, lambda said: said["marks"][0] >= 3)
        async with spoiled(b"early 1", b"early 2") as later:
            await later.store("orders", [b"later"], delivery_times_ms=times(now_ms))
            copy_store("copy", "image")
            assert b"later" in await comes(later, 3)
        async with log_only(store_path=tmp_path / "image") as last:
            assert b"later" in await comes(last, 3)


async def test_a_redrive_of_a_lost_letter_is_none_of_a_later_one(
    log_only, spoiled, copy_store, tmp_path
):
    async with log_only(producer_save_s=0.05) as broker:
        await dead_letters(broker, 3)
        assert (await redrive_call(broker, [1, 2])).redriven_count == 2
        path = tmp_path / "store/config/redrivenDeadLetters.json"
        await snapshot_says(path, lambda said: said["queues"] and said["queues"][0][3] >= 3)
        # The letter itself: its body stands in front of its topic.
        async with spoiled(b"2\x0c%DLQ%billing") as later:
            await one_more_letter(later)
            assert await broker.bodies("%DLQ%billing") == [b"0", b"1", b"2"]
            assert await later.bodies("%DLQ%billing") == [b"0", b"1", b"more"]
            copy_store("copy", "image")
            assert (await redrive_call(later, [1, 2])).redriven_count == 1
        async with log_only(store_path=tmp_path / "image") as last:
            assert (await redrive_call(last, [1, 2])).redriven_count == 1


async def test_a_half_message_that_is_lost_hides_no_later_one_from_checks(
    log_only, spoiled, copy_store, tmp_path
):
    async with log_only(producer_save_s=0.05) as broker:
        await broker.create_topic("orders")
        for number in range(3):
            await broker.store_half(f"t-{number}", b"paid %d" % number)
        path = tmp_path / "store/config/transactions.json"
        await snapshot_says(path, lambda said: len(said["pending"]) == 3)
        async with spoiled(b"paid 1", b"paid 2") as later:
            await later.store_half("t-3", b"paid 3")
            copy_store("copy", "image")
            assert await halves_of(later) == ["t-0", "t-3"]
        async with log_only(store_path=tmp_path / "image") as last:
            assert await halves_of(last) == ["t-0", "t-3"]


async def halves_of(broker):
    listed = await broker.transactions.ListHalfMessages(transaction_pb.ListHalfMessagesRequest())
    return [half.transaction_id for half in listed.half_messages]


async def one_more_letter(broker):
    stored = await broker.store("orders", [b"more"], 1)
    request = retry_pb.ReturnMessageRequest(
        consumer_group="billing",
        topic="orders",
        queue_id=1,
        commit_log_offset=stored.first_commit_log_offset,
    )
    assert (await broker.retries.ReturnMessage(request)).dead_letter
