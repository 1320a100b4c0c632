"""Idempotent sends against a real broker: repeats, crashes, topics that change."""

import asyncio

import pytest
from grpc import aio
from structlog.testing import capture_logs

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from services.broker.tests.conftest import failure_of


async def append(broker, first, bodies, **options):
    queue_id = options.pop("queue_id", 0)
    sequence = (7, options.pop("epoch", 0), first)
    (result,) = await broker.append(
        broker.batch("orders", bodies, queue_id, sequence=sequence, **options)
    )
    return result


async def test_a_repeat_is_answered_with_the_first_result(broker):
    first = await append(broker, 0, [b"a", b"b"])
    await broker.store("orders", [b"between"])
    again = await append(broker, 0, [b"a", b"b"])
    assert (first.duplicate, again.duplicate) == (False, True)
    again.duplicate = False
    assert again == first
    assert await broker.bodies("orders") == [b"a", b"b", b"between"]
    assert (await append(broker, 2, [b"c"])).first_queue_offset == 3


@pytest.mark.parametrize("flush_mode", ["async", "sync"])
async def test_numbers_of_a_batch_are_not_taken_by_other_bytes_of_its_size(
    running, crashed, reason_of, flush_mode
):
    async def check(broker):
        for bodies, options in (
            ([b"a", b"x"], {}),
            ([b"a", b"b"], {"tags": ["", "u"]}),
            ([b"a", b"b"], {"keys": ["j", "k"]}),
        ):
            refused = await append(broker, 0, bodies, **({"tags": ["", "t"]} | options))
            assert reason_of(refused.error) == "SEQUENCE_PASSED"
        assert (await append(broker, 0, [b"a", b"b"], tags=["", "t"])).duplicate

    async with running(flush_mode=flush_mode) as broker:
        await broker.create_topic("orders")
        await append(broker, 0, [b"a", b"b"], tags=["", "t"])
        await check(broker)
        # It is the log that is compared with, also by who was not there.
        async with crashed() as survivor:
            await check(survivor)
            assert await survivor.bodies("orders") == [b"a", b"b"]


@pytest.mark.parametrize("flush_mode", ["async", "sync"])
async def test_copies_in_flight_at_once_are_stored_once(running, flush_mode):
    async with running(flush_mode=flush_mode) as broker:
        await broker.create_topic("orders")
        results = await asyncio.gather(*(append(broker, 0, [b"a"] * 100) for _ in range(20)))
        assert sorted(result.duplicate for result in results) == [False] + [True] * 19
        assert len({result.first_commit_log_offset for result in results}) == 1
        assert len({result.acknowledged_level for result in results}) == 1
        assert len(await broker.bodies("orders")) == 100


async def test_reasons_say_what_is_wrong(broker, reason_of):
    await append(broker, 0, [b"a", b"b"])
    gap = await append(broker, 3, [b"d"])
    assert reason_of(gap.error) == "SEQUENCE_GAP"
    assert reason_of((await append(broker, 1, [b"b", b"c"])).error) == "SEQUENCE_PASSED"
    assert not (await append(broker, 0, [b"new"], epoch=1)).duplicate
    assert reason_of((await append(broker, 2, [b"c"])).error) == "PRODUCER_FENCED"


@pytest.mark.parametrize("stop", ["clean", "killed", "killed after a snapshot", "no snapshot"])
async def test_repeats_over_a_restart(running, crashed, tmp_path, stop):
    snapshot = tmp_path / "store" / "config" / "producerSequences.json"
    async with running(producer_save_s=0.01 if "after" in stop else 1000) as broker:
        await broker.create_topic("orders", 2)
        for first in range(10):
            await append(broker, first, [b"%d" % first], queue_id=0)
        if "after" in stop:
            while not snapshot.exists():  # noqa: ASYNC110 - a file tells nobody that it is there.
                await asyncio.sleep(0.01)
        last = await append(broker, 10, [b"10", b"11"])
        if stop != "clean":
            async with crashed() as survivor:
                await check_repeats(survivor, last)
            return
    if stop == "no snapshot":
        for path in snapshot.parent.glob("producerSequences.json*"):
            path.unlink()
    async with running() as broker:
        await check_repeats(broker, last)


async def check_repeats(broker, last):
    again = await append(broker, 10, [b"10", b"11"])
    assert again.duplicate
    again.duplicate = False
    assert again == last
    assert not (await append(broker, 12, [b"12"])).duplicate
    assert await broker.bodies("orders") == [b"%d" % number for number in range(13)]


async def test_a_damaged_snapshot_is_read_from_the_log(running, tmp_path):
    async with running() as broker:
        await append(broker, 0, [b"a"])
    for path in (tmp_path / "store" / "config").glob("producerSequences.json*"):
        if path.suffix != ".sums":
            path.write_bytes(b"{}\n")
    with capture_logs() as logs:
        async with running() as broker:
            assert (await append(broker, 0, [b"a"])).duplicate
    findings = [line["finding"] for line in logs if line["event"] == "state_finding"]
    assert any("producerSequences" in finding for finding in findings)


async def test_a_topic_made_again_begins_anew(running, crashed):
    async with running() as broker:
        await append(broker, 0, [b"a"])
        await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
        await broker.create_topic("orders")
        gap = failure_of((await append(broker, 1, [b"b"])).error)
        # It may have been stored in the old topic.
        assert (gap.reason, gap.metadata["known_for_ms"]) == ("SEQUENCE_GAP", "0")
        assert not (await append(broker, 0, [b"b"], epoch=1)).duplicate
        async with crashed() as survivor:
            assert (await append(survivor, 0, [b"b"], epoch=1)).duplicate
            assert await survivor.bodies("orders") == [b"b"]


async def test_a_queue_that_went_still_answers_repeats(broker, reason_of):
    await broker.create_topic("orders", 2)
    await append(broker, 0, [b"a"], queue_id=1)
    await broker.topics.UpdateTopic(
        topic_pb.UpdateTopicRequest(topic="orders", read_queue_count=2, write_queue_count=1)
    )
    assert (await append(broker, 0, [b"a"], queue_id=1)).duplicate
    refusal = await append(broker, 1, [b"b"], queue_id=1)
    assert reason_of(refusal.error) == "QUEUE_NOT_FOUND"


async def test_plain_messages_are_idempotent_too(broker):
    request = send_pb.SendMessagesRequest(
        topic="orders",
        queue_id=1,
        messages=[{"body": b"a"}, {"body": b"b"}],
        sequence={"producer_id": 7},
    )
    first = await broker.sends.SendMessages(request)
    again = await broker.sends.SendMessages(request)
    assert (first.duplicate, again.duplicate) == (False, True)
    again.duplicate = False
    assert again == first
    request.messages[1].body = b"c"
    with pytest.raises(aio.AioRpcError, match="numbers 0 to 1"):
        await broker.sends.SendMessages(request)
    assert await broker.bodies("orders", 1) == [b"a", b"b"]
