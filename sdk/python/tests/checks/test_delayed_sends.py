"""Delayed messages against a real broker: times, spans, levels, taking back."""

import asyncio
import time
import uuid
from datetime import UTC, datetime, timedelta, tzinfo

import pyarrow as pa
import pytest

from ariane_record.single.recall_handle import RecallHandle, decode_recall_handle
from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings, QueueReader
from ariane_sdk import sync as ariane_sync
from ariane_sdk.checks.delay import delivery_time_ms
from ariane_sdk.errors import (
    ArianeError,
    BatchSendError,
    IllegalArgument,
    MessageIllegal,
    MessageNotFound,
)
from ariane_sdk.runtime.clock import SystemClock


class Nowhere(tzinfo):
    """A time zone that does not say where it is."""

    def utcoffset(self, _moment):
        return None


@pytest.fixture
async def topic(cluster):
    name = f"orders-{uuid.uuid4().hex[:8]}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=2)
    return name


@pytest.fixture
async def arrived(cluster, topic):
    """The messages of the topic, once there are so many, in the order of their storing."""

    async def wait(count, topic=topic):
        async with QueueReader(cluster.name_servers) as reader, asyncio.timeout(60):
            while True:
                found = []
                for queue, (begin, end) in (await reader.bounds(topic)).items():
                    async for columns in reader.read_range(queue, begin, end):
                        found += map(columns.message, range(len(columns)))
                if len(found) >= count:
                    return sorted(found, key=lambda message: message.store_timestamp_ms)
                await asyncio.sleep(0.05)

    return wait


@pytest.fixture(params=[True, False], ids=["idempotent", "repeating"])
async def producer(cluster, request):
    settings = ProducerSettings(idempotent=request.param)
    async with Producer(cluster.name_servers, settings=settings) as producer:
        yield producer


@pytest.fixture
async def both(cluster):
    """Run a test's steps with a producer of each kind, at once: most of their time is waiting."""

    async def run(steps, *, idempotent):
        topic = f"orders-{uuid.uuid4().hex[:8]}"
        settings = ProducerSettings(idempotent=idempotent)
        async with (
            ClusterClient(cluster.name_servers) as client,
            Producer(cluster.name_servers, settings=settings) as producer,
        ):
            await client.create_topic(topic, queue_count=2)
            await steps(producer, topic)

    async def both(steps):
        await asyncio.gather(run(steps, idempotent=True), run(steps, idempotent=False))

    return both


def now():
    return datetime.now(UTC)


async def test_each_way_to_say_it(producer, topic, arrived):
    begin = now()
    results = await asyncio.gather(
        producer.send(Message(topic, b"level", delay_level=1, tag="x")),
        producer.send(Message(topic, b"span", delay=timedelta(milliseconds=500))),
        producer.send(Message(topic, b"time", deliver_at=begin + timedelta(milliseconds=200))),
        producer.send(Message(topic, b"at once", keys=("k",))),
        producer.send(Message(topic, b"past", deliver_at=begin - timedelta(days=9))),
    )
    found = await arrived(5)
    assert {message.body for message in found[:2]} == {b"at once", b"past"}
    assert [message.body for message in found[2:]] == [b"time", b"span", b"level"]
    ids = {message.body: message.unique_id for message in found}
    bodies = (b"level", b"span", b"time", b"at once", b"past")
    assert [result.unique_id for result in results] == [ids[body] for body in bodies]
    assert [bool(result.recall_handle) for result in results] == [False, True, True, False, True]
    late = found[2].store_timestamp_ms - begin.timestamp() * 1000 - 200
    assert 0 <= late < 1000
    due_ms = {each.body: each.properties.get("TIMER_DELIVER_MS") for each in found}
    assert due_ms[b"at once"] is due_ms[b"level"] is None
    begin_ms = begin.timestamp() * 1000
    assert 0 <= int(due_ms[b"time"]) - begin_ms - 200 < 1
    assert 0 <= int(due_ms[b"past"]) - begin_ms + 9 * 86_400_000 < 1
    assert begin_ms + 499 < int(due_ms[b"span"]) <= found[3].store_timestamp_ms


@pytest.mark.parametrize("ahead_ms", [-60_000, 60_000])
async def test_a_delay_does_not_trust_the_producers_clock(
    cluster, topic, arrived, monkeypatch, ahead_ms
):
    def wrong_ms(_):
        return time.time_ns() // 1_000_000 + ahead_ms

    monkeypatch.setattr(SystemClock, "now_ms", wrong_ms)
    async with Producer(cluster.name_servers) as producer:
        begin_ms = time.time_ns() // 1_000_000
        await producer.send(Message(topic, b"a", delay=timedelta(milliseconds=1500)))
        gone = await producer.send(Message(topic, b"gone", delay=timedelta(milliseconds=1500)))
        assert await producer.recall(gone.recall_handle)
        [message] = await arrived(1)
    assert 1500 <= message.store_timestamp_ms - begin_ms < 30_000


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
async def test_rows_of_a_table_come_each_at_its_time(cluster, topic, arrived, unit):
    begin = now().replace(microsecond=1)
    step = timedelta(seconds=1 if unit == "s" else 0.2)
    due = [begin + number % 3 * step for number in range(300)]
    times = [None if number % 4 == 0 else due[number] for number in range(300)]
    kind = pa.timestamp(unit, "Europe/Paris")
    table = pa.table(
        {
            "body": [b"%d" % number for number in range(300)],
            "when": pa.array(times, pa.timestamp("us", "UTC")).cast(kind, safe=False),
            "group": pa.array(["g" if moment is None else None for moment in times]),
        }
    )
    names = {"body": "body", "deliveryTimestamp": "when", "messageGroup": "group"}
    settings = ProducerSettings(batch_bytes_max=4000)
    async with Producer(cluster.name_servers, settings=settings) as producer:
        places = await producer.send_columns(topic, table, columns=names)
    at_once = await arrived(75)
    assert {message.body for message in at_once} >= {b"%d" % n for n in range(0, 300, 4)}
    found = await arrived(300)
    assert sorted(int(message.body) for message in found) == list(range(300))
    ids = {message.unique_id: message.body for message in found}
    assert [ids[unique_id] for unique_id in places["messageId"].to_pylist()] == table[
        "body"
    ].to_pylist()
    for message in found:
        moment = times[int(message.body)]
        if moment is not None:
            said = moment.replace(microsecond=0) if unit == "s" else moment
            assert message.store_timestamp_ms >= said.timestamp() * 1000


async def test_batches_of_all_kinds_at_once(both, arrived):
    async def send(producer, topic):
        messages = []
        for number in range(300):
            delay = (None, timedelta(milliseconds=number), timedelta(0))[number % 3]
            messages.append(Message(topic, b"%d" % number, delay=delay))
        messages += [Message(topic, b"l%d" % number, delay_level=1) for number in range(50)]
        results = await producer.send_batch(messages)
        found = await arrived(350, topic)
        assert sorted(message.body for message in found) == sorted(m.body for m in messages)
        ids = {message.unique_id: message.body for message in found}
        assert [ids[result.unique_id] for result in results] == [m.body for m in messages]

    await both(send)


@pytest.mark.parametrize(
    "fields",
    [
        {"delay": timedelta(1), "delay_level": 1},
        {"delay": timedelta(1), "deliver_at": datetime(2100, 1, 1, tzinfo=UTC)},
        {"delay_level": -1},
        {"delay_level": 1 << 31},
        {"deliver_at": datetime(2100, 1, 1, tzinfo=Nowhere())},
        {"delay": timedelta(1), "message_group": "g"},
        {"deliver_at": datetime(2100, 1, 1)},  # noqa: DTZ001 - the point of it.
    ],
)
async def test_delays_that_cannot_be(producer, topic, fields):
    with pytest.raises(MessageIllegal):
        await producer.send(Message(topic, b"a", **fields))
    with pytest.raises(BatchSendError):
        await producer.send_batch([Message(topic, b"a", **fields)])


async def test_a_delay_that_cannot_be_harms_no_other_message(both, arrived):
    async def send(producer, topic):
        impossible = (
            {"deliver_at": datetime(2100, 1, 1, tzinfo=Nowhere())},
            {"delay": timedelta.max},
            {"delay": timedelta(days=41)},
            {"deliver_at": datetime.max.replace(tzinfo=UTC)},
            {"delay_level": 1 << 40},
        )
        good = [Message(topic, b"good", delay=timedelta(milliseconds=1)) for _ in range(3)]
        good.append(Message(topic, b"good", delay_level=1))
        for fields in impossible:
            outcomes = await asyncio.gather(
                *map(producer.send, [good[0], Message(topic, b"bad", **fields), *good[1:]]),
                return_exceptions=True,
            )
            assert isinstance(outcomes.pop(1), ArianeError), fields
            assert all(result.unique_id for result in outcomes), fields
            with pytest.raises(BatchSendError) as raised:
                await producer.send_batch([good[0], Message(topic, b"bad", **fields), *good[1:]])
            failed = [isinstance(each, ArianeError) for each in raised.value.outcomes]
            assert failed == [0, 1, 0, 0, 0], fields
        # All of a level wait their second together.
        found = [message.body for message in await arrived(8 * len(impossible), topic)]
        assert found == [b"good"] * 8 * len(impossible)

    await both(send)


async def test_too_far_ahead_is_told(producer, topic):
    with pytest.raises(ArianeError, match="40 days") as raised:
        await producer.send(Message(topic, b"a", delay=timedelta(days=41)))
    assert raised.value.reason == "DELIVERY_TIME_TOO_LATE"
    assert not raised.value.outcome_unknown


async def test_the_brokers_limit_counts_too(cluster, topic):
    settings = ProducerSettings(delay_days_max=400)
    async with Producer(cluster.name_servers, settings=settings) as producer:
        with pytest.raises(ArianeError, match="40 days") as raised:
            await producer.send(Message(topic, b"a", delay=timedelta(days=41)))
    assert raised.value.reason == "DELIVERY_TIME_TOO_LATE"


async def test_a_recalled_message_does_not_come(both, arrived):
    async def recall(producer, topic):
        soon = timedelta(milliseconds=900)
        gone, _ = await producer.send_batch(
            [Message(topic, b"gone", delay=soon), Message(topic, b"kept", delay=soon)]
        )
        assert await producer.recall(gone.recall_handle)
        assert await producer.recall(gone.recall_handle)
        assert [message.body for message in await arrived(1, topic)] == [b"kept"]
        await asyncio.sleep(0.2)
        assert len(await arrived(1, topic)) == 1

    await both(recall)


async def test_a_recall_that_comes_too_late_says_so(producer, topic, arrived):
    result = await producer.send(Message(topic, b"a", delay=timedelta(0)))
    await arrived(1)
    assert not await producer.recall(result.recall_handle)


async def test_handles_that_name_nothing(producer, topic):
    for handle in ("nothing", None, 7):
        with pytest.raises(IllegalArgument, match="no recall handle"):
            await producer.recall(handle)
    with pytest.raises(IllegalArgument, match="of a delay level"):
        await producer.recall(
            (await producer.send(Message(topic, b"a", delay_level=9))).recall_handle
        )
    result = await producer.send(Message(topic, b"a", delay=timedelta(minutes=5)))
    named = decode_recall_handle(result.recall_handle)
    with pytest.raises(MessageNotFound):
        await producer.recall(RecallHandle(*named[:3], "other").encode())


def test_the_sync_twin(cluster):
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    with ariane_sync.ClusterClient(cluster.name_servers) as client:
        client.create_topic(topic, queue_count=1)
    with ariane_sync.Producer(cluster.name_servers) as producer:
        result = producer.send(Message(topic, b"a", delay=timedelta(minutes=5)))
        assert producer.recall(result.recall_handle)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"deliver_at": datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)}, 1001),
        ({"deliver_at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, 1000),
        ({"deliver_at": datetime(1969, 1, 1, tzinfo=UTC)}, 1),
        ({"delay": timedelta(microseconds=1)}, 5001),
        ({"delay": timedelta(milliseconds=7)}, 5007),
        ({"delay": timedelta(days=-900)}, 5001),
        ({"delay": timedelta.min}, 5001),
        ({"delay": timedelta.max}, 5000 + (timedelta.max // timedelta(milliseconds=1)) + 1),
    ],
)
def test_times_are_rounded_up(fields, expected):
    assert delivery_time_ms(Message("orders", b"", **fields), 5000) == expected
