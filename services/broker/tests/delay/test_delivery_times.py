"""Messages for a time of delivery: to the millisecond, once, over restarts and crashes."""

import asyncio
import shutil
import time

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1.message_pb2 import MESSAGE_TYPE_DELAY, Message
from ariane_broker.app import compose
from ariane_broker.rpc.translation.delay_wire import delivery_time_ms
from ariane_record import RecordFields, encode_block
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import TIMER_TOPIC
from ariane_servicekit import serving
from ariane_storage.store import Store
from ariane_testkit.append_rows import row_of

DAY_MS = 86_400_000


def now_ms():
    return time.time_ns() // 1_000_000


def times(*times_ms):
    return np.array(times_ms, "<i8").tobytes()


async def park(broker, bodies, times_ms, queue_id=0, *, topic="orders", **options):
    column = times(*times_ms)
    return await broker.store(topic, bodies, queue_id, delivery_times_ms=column, **options)


async def arrived(broker, count, queue_id=0, topic="orders", within_s=60):
    """The messages of a queue, once there are so many."""
    async with asyncio.timeout(within_s):
        while True:
            messages = []
            while True:
                (pulled,) = await broker.pull((topic, queue_id, len(messages)))
                columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
                messages += map(columns.message, range(len(columns)))
                if not len(columns):
                    break
            if len(messages) >= count:
                return messages
            await asyncio.sleep(0.02)


def bodies_of(messages):
    return [message.body for message in messages]


async def test_each_comes_at_its_time_as_it_was_sent(broker):
    await broker.create_topic("orders", 3)
    begin = now_ms()
    due = [begin + 700, begin + 300, begin + 500]
    await park(broker, [b"700", b"300", b"500"], due, 2, tags=["a", "b", "c"], keys=["k"] * 3)
    found = await arrived(broker, 3, queue_id=2)
    assert bodies_of(found) == [b"300", b"500", b"700"]
    for message in found:
        late_ms = message.store_timestamp_ms - (begin + int(message.body))
        assert 0 <= late_ms < 20_000  # Not early; how late, only a slow machine decides.
    assert (found[0].tag, found[0].keys, found[0].unique_id) == ("b", ("k",), "id-1")
    assert set(found[0].properties) == {"TAGS", "KEYS", "UNIQ_KEY", "TIMER_DELIVER_MS"}
    said = [int(message.properties["TIMER_DELIVER_MS"]) for message in found]
    assert said == sorted(due)


async def test_a_time_that_has_passed_is_now(broker):
    await broker.create_topic("orders")
    await park(broker, [b"a", b"b"], [1, now_ms() - DAY_MS])
    assert sorted(bodies_of(await arrived(broker, 2, within_s=60))) == [b"a", b"b"]


async def test_more_keys_than_the_index_takes_come_along(broker):
    await broker.create_topic("orders")
    keys = " ".join(f"k{number}" for number in range(400))
    block = encode_block(
        "orders", [RecordFields(topic="orders", body=b"a", properties={"KEYS": keys})]
    )
    await broker.append(row_of(block, delivery_times_ms=times(now_ms() + 50)))
    (message,) = await arrived(broker, 1, within_s=60)
    assert message.properties["KEYS"] == keys


async def test_a_message_due_sooner_overtakes_others(broker):
    await broker.create_topic("orders")
    await park(broker, [b"later"], [now_ms() + 20_000])
    await park(broker, [b"soon"], [now_ms() + 100])
    assert bodies_of(await arrived(broker, 1, within_s=60)) == [b"soon"]


async def test_a_time_too_far_ahead_is_refused_with_the_limit(running):
    async with running(delay_days_max=2) as broker:
        await broker.create_topic("orders")
        due = now_ms() + 3 * DAY_MS
        batch = broker.batch("orders", [b"a", b"b"], delivery_times_ms=times(due, due - DAY_MS * 2))
        (result,) = await broker.append(batch)
        assert "2 days" in result.error.message


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"delivery_times_ms": times(5)}, "BLOCK_CORRUPTED"),
        ({"delivery_times_ms": times(5, 0)}, "FIELD_INVALID"),
        ({"delivery_times_ms": times(5, -(1 << 63))}, "FIELD_INVALID"),
        ({"delivery_times_ms": times(5, (1 << 63) - 1)}, "DELIVERY_TIME_TOO_LATE"),
        ({"delivery_times_ms": b"123"}, "BLOCK_CORRUPTED"),
        ({"delivery_times_ms": times(5, 5), "delay_level": 1}, "BLOCK_CORRUPTED"),
        ({"delays_ms": times(5)}, "BLOCK_CORRUPTED"),
        ({"delays_ms": times(5, 0)}, "FIELD_INVALID"),
        ({"delays_ms": times(5, (1 << 63) - 1)}, "FIELD_INVALID"),
        ({"delays_ms": times(5, 1 << 40)}, "DELIVERY_TIME_TOO_LATE"),
        ({"delays_ms": b"123"}, "BLOCK_CORRUPTED"),
        ({"delays_ms": times(5, 5), "delay_level": 1}, "BLOCK_CORRUPTED"),
        ({"delays_ms": times(5, 5), "delivery_times_ms": times(5, 5)}, "BLOCK_CORRUPTED"),
    ],
)
async def test_times_that_cannot_be(broker, reason_of, fields, reason):
    await broker.create_topic("orders")
    (result,) = await broker.append(broker.batch("orders", [b"a", b"b"], **fields))
    assert reason_of(result.error) == reason


async def test_sends_to_the_timer_topic_are_refused(broker, reason_of):
    (result,) = await broker.append(broker.batch(TIMER_TOPIC, [b"a"]))
    assert reason_of(result.error) == "TOPIC_RESERVED"


async def test_the_entries_are_rebuilt_from_the_log(running, tmp_path, settings_for):
    due = now_ms() + DAY_MS
    async with running() as broker:
        await broker.create_topic("orders")
        await park(broker, [b"a", b"b"], [due, due + 1])
    config = settings_for().store_config()
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with Store.open(tmp_path / "store", config) as store:
        entries = store.queue_entries(TIMER_TOPIC, 0, 0, max_count=9)
        assert entries["tags_code"].tolist() == [due, due + 1]
        (message,) = store.query_by_key(TIMER_TOPIC, "id-0")
        expected = {"REAL_TOPIC": "orders", "REAL_QID": "0", "TIMER_DELIVER_MS": str(due)}
        assert expected.items() <= message.properties.items()
        assert 0 < due - int(message.properties["TIMER_OUT_MS"]) <= 1000


@pytest.mark.parametrize("snapshot", ["saved at the stop", "none"])
async def test_due_during_downtime_comes_once_and_soon(running, clock, tmp_path, snapshot):
    async with running() as broker:
        await broker.create_topic("orders")
        await park(broker, [b"early"], [now_ms()])
        await arrived(broker, 1)
        await park(broker, [b"a", b"b"], [now_ms() + 600, now_ms() + 700])
    if snapshot == "none":
        for path in (tmp_path / "store" / "config").glob("timerProgress.json*"):
            path.unlink()
    clock.advance(0.8)
    for _ in range(2):
        async with running() as broker:
            found = await arrived(broker, 3)
            await asyncio.sleep(0.2)
            assert bodies_of(found) == bodies_of(await arrived(broker, 3)) == [b"early", b"a", b"b"]


async def test_messages_delivered_before_a_crash_are_not_delivered_again(running, crashed):
    async with running(producer_save_s=0.05) as broker:
        await broker.create_topic("orders")
        begin = now_ms()
        bodies = [b"%d" % number for number in range(500)]
        due = [begin + number * 7 % 500 for number in range(500)]
        await park(broker, bodies, due)
        await park(broker, [b"far"], [begin + DAY_MS])
        for count in (100, 300):
            await arrived(broker, count)
            async with crashed() as survivor:
                found = await arrived(survivor, 500)
                await asyncio.sleep(0.1)
                assert len(await arrived(survivor, 500)) == 500
                assert sorted(bodies_of(found)) == sorted(bodies)


async def test_a_repeated_batch_is_delivered_once(broker):
    await broker.create_topic("orders")
    due = now_ms() + 100
    first = await park(broker, [b"a"], [due], sequence=(7, 0, 0))
    again = await park(broker, [b"a"], [due], sequence=(7, 0, 0))
    assert (first.duplicate, again.duplicate) == (False, True)
    await park(broker, [b"b"], [due + 200], sequence=(7, 0, 1))
    assert bodies_of(await arrived(broker, 2)) == [b"a", b"b"]


async def test_due_together_each_connections_come_in_the_order_of_their_times(
    clock, broker, probe_class
):
    await broker.create_topic("orders")
    begin = now_ms() + 3_600_000
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with aio.insecure_channel(str(broker.address), options=options) as channel:
        both = (broker, probe_class(channel, broker.address))
        for turn in range(10):
            for number, connection in enumerate(both):
                # The later ones first, and two of each time: those come as they were sent.
                due = begin + 200 - 20 * turn - 7 * number
                bodies = [b"%d %d %d" % (number, due, turn), b"%d %d %d" % (number, due, 10 + turn)]
                await park(connection, bodies, [due, due])
    clock.advance(3601)
    found = [tuple(map(int, body.split())) for body in bodies_of(await arrived(broker, 40))]
    for number in range(2):
        own = [message for message in found if message[0] == number]
        assert len(own) == 20
        assert own == sorted(own)


async def test_many_due_at_once_leave_others_their_turn(clock, broker):
    await broker.create_topic("orders", 4)
    due = now_ms() + 3_600_000
    for number in range(20):
        await park(broker, [b"x" * 100] * 1000, [due] * 1000, number % 4)
    clock.advance(3600)
    answered_between = count = 0
    request = broker_pb.GetBrokerStateRequest()
    async with asyncio.timeout(60):
        while count < 20_000:
            state = await broker.broker.GetBrokerState(request)
            count = state.delayed_messages.delivered_count
            answered_between += 0 < count < 20_000
    assert answered_between


async def send_plain(broker, *messages, **fields):
    request = send_pb.SendMessagesRequest(topic="orders", messages=messages, **fields)
    return await broker.sends.SendMessages(request)


def timed(body, time_ms):
    message = Message(body=body)
    message.delivery_time.FromMilliseconds(time_ms)
    return message


@pytest.mark.parametrize("fields", [{"delay_level": 18}, {"delivery_times_ms": "in a day"}])
async def test_retention_keeps_what_waits(settings_for, probe_class, fields):
    lives = []

    def composed(settings, stop):
        lives.append(compose(settings, stop))
        return lives[0]

    if "delivery_times_ms" in fields:
        fields = {"delivery_times_ms": times(now_ms() + DAY_MS)}
    async with (
        serving(settings_for(), composed) as address,
        aio.insecure_channel(str(address)) as channel,
    ):
        broker, (life,) = probe_class(channel, address), lives
        await broker.create_topic("orders")
        parked = await broker.store("orders", [b"waits"], **fields)
        await broker.store("orders", [b"others"])
        await life.rooms.log.log_states.save()
        assert life.rooms.log.keeping.needed_from == parked.first_commit_log_offset


def test_a_plain_messages_time_is_rounded_up():
    """So that it is not early by a part of a millisecond."""
    for nanos, expected in ((0, 5000), (1, 5001), (999_999, 5001), (1_000_000, 5001)):
        message = Message(delivery_time=Timestamp(seconds=5, nanos=nanos))
        assert delivery_time_ms(message, 0) == expected


async def test_a_delay_counts_from_when_the_broker_takes_the_message(broker):
    await broker.create_topic("orders", 1)
    begin = now_ms()
    plain = Message(body=b"plain")
    plain.delay.FromMicroseconds(200_001)
    await send_plain(broker, plain)
    await broker.store("orders", [b"late", b"soon"], delays_ms=times(600, 400))
    found = await arrived(broker, 3)
    assert bodies_of(found) == [b"plain", b"soon", b"late"]
    for message, least in zip(found, (201, 400, 600), strict=True):
        assert message.store_timestamp_ms >= begin + least


async def test_plain_messages_for_a_time_and_of_a_level(broker, refused):
    await broker.create_topic("orders", 1)
    await send_plain(broker, timed(b"a", now_ms() + 300), timed(b"b", now_ms() + 100))
    await send_plain(broker, Message(body=b"c", delay_level=1, message_type=MESSAGE_TYPE_DELAY))
    assert bodies_of(await arrived(broker, 3)) == [b"b", b"a", b"c"]
    for messages in (
        [timed(b"a", 5), Message(body=b"b")],
        [Message(body=b"a", delay_level=1), Message(body=b"b", delay_level=2)],
        [Message(body=b"a", message_type=MESSAGE_TYPE_DELAY)],
        [Message(body=b"a", delay_level=1, message_group="g")],
        [Message(body=b"a", delay=Duration(seconds=1), message_group="g")],
        [Message(body=b"a", delay=Duration(seconds=1)), Message(body=b"b")],
        [Message(body=b"a", delay=Duration(seconds=1), delay_level=1)],
    ):
        assert (await refused(send_plain(broker, *messages))).reason == "MESSAGE_ILLEGAL"
