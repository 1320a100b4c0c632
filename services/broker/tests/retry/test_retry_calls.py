"""Failed messages through the wire: brought back later, given up in the end, taken back once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_broker.app import compose_from
from ariane_broker.environment import Environment, Threads
from ariane_record import RecordFields, encode_block
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import CRC_PROPERTY_BYTES, PRODUCER_PROPERTIES_BYTES_MAX
from ariane_servicekit import SystemClock, serving
from ariane_storage.disk.clock import SystemClock as StoreClock
from ariane_storage.disk.os_disk import OsDisk
from ariane_testkit.append_rows import row_of
from services.broker.tests.receive.receive_calls import Receiver, bodies

LADDER_S = (10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30)), 3600, 7200)


async def make_group(broker, group="billing", *, delays_ms=None, growth=None, **fields):
    policy = None
    if delays_ms is not None:
        delays = [
            Duration(seconds=delay // 1000, nanos=delay % 1000 * 1_000_000) for delay in delays_ms
        ]
        policy = group_pb.RetryPolicy(table=group_pb.DelayTable(delays=delays))
    if growth is not None:
        policy = group_pb.RetryPolicy(exponential=growth)
    fields = {"consume_enabled": True, "attempts_max": 16} | fields
    wanted = group_pb.ConsumerGroup(consumer_group=group, retry_policy=policy, **fields)
    await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=wanted))


def return_call(broker, message, group="billing", **fields):
    return broker.retries.ReturnMessage(
        retry_pb.ReturnMessageRequest(
            **{
                "consumer_group": group,
                "topic": message.topic,
                "queue_id": message.queue_id,
                "commit_log_offset": message.commit_log_offset,
            }
            | fields
        )
    )


async def messages_of(broker, topic, queue_id=0, group="billing"):
    (pulled,) = await broker.pull((topic, queue_id, 0), group=group)
    if pulled.HasField("error"):
        return []
    columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
    return list(map(columns.message, range(len(columns))))


async def arrived(broker, count, topic="%RETRY%billing", within_s=60):
    async with asyncio.timeout(within_s):
        while True:
            found = await messages_of(broker, topic)
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


async def failing_message(broker, queue_id=0, **options):
    await broker.create_topic("orders", queue_id + 1)
    await broker.store("orders", [b"bad"], queue_id, **options)
    (message,) = await messages_of(broker, "orders", queue_id)
    return message


class ShiftedClock(SystemClock):
    """The machine's clock, set forward at will, with loops that look at it all the time."""

    shift_ms = 0
    store_shift_ms = 0

    def now_ms(self):
        return super().now_ms() + self.shift_ms

    async def sleep(self, seconds):
        await super().sleep(min(seconds, 0.01))


class ShiftedStoreClock(StoreClock):
    """The store's clock, set forward apart from the others."""

    def __init__(self, clock):
        self._clock = clock

    def now_ms(self):
        return super().now_ms() + self._clock.store_shift_ms


@pytest.fixture
async def shifted(settings_for, probe_class):
    clock = ShiftedClock()

    def compose(settings, stop):
        threads = Threads(*(ThreadPoolExecutor(1) for _ in range(4)))
        store_clock = ShiftedStoreClock(clock)
        return compose_from(Environment(settings, stop, clock, OsDisk(), threads, store_clock))

    async with (
        serving(settings_for(), compose) as address,
        aio.insecure_channel(str(address)) as channel,
    ):
        yield probe_class(channel, address), clock


@pytest.mark.slow
async def test_the_whole_ladder_and_then_the_dead_letters(shifted):
    broker, clock = shifted
    await make_group(broker)
    message = origin = await failing_message(broker, 2, tags=["red"], keys=["k"])
    for attempts, wait_s in enumerate(LADDER_S, 1):
        clock.shift_ms = 0
        answer = await return_call(broker, message, cause=f"try {attempts}")
        assert (answer.dead_letter, answer.attempts) == (False, attempts)
        clock.shift_ms = wait_s * 1000 - 5_000
        await asyncio.sleep(0.03)
        assert len(await messages_of(broker, "%RETRY%billing")) == attempts - 1
        clock.shift_ms = wait_s * 1000 + 10
        message = (await arrived(broker, attempts))[-1]
        assert message.attempts == attempts
    answer = await return_call(broker, message, cause="the last\x01\n one")
    assert (answer.dead_letter, answer.attempts) == (True, 17)
    (letter,) = await messages_of(broker, "%DLQ%billing")
    assert (letter.body, letter.tag, letter.keys) == (b"bad", "red", ("k",))
    assert letter.attempts == 17
    said = letter.properties
    assert said["DLQ_ORIGIN_TOPIC"] == said["RETRY_TOPIC"] == "orders"
    assert (said["ORIGIN_QUEUE_ID"], said["ORIGIN_QUEUE_OFFSET"]) == ("2", "0")
    assert int(said["DLQ_ORIGIN_MESSAGE_ID"][-16:], 16) == origin.commit_log_offset
    assert said["DLQ_REASON"] == "ATTEMPTS_EXHAUSTED"
    assert said["LAST_ERROR"] == "the last   one"
    assert letter.unique_id == origin.unique_id


@pytest.mark.parametrize("attempts_max", [0, 1, 3])
async def test_dead_after_exactly_as_many_repetitions_as_the_group_allows(broker, attempts_max):
    await make_group(broker, attempts_max=attempts_max, delays_ms=[1])
    message = await failing_message(broker)
    for count in range(1, attempts_max + 1):
        assert not (await return_call(broker, message)).dead_letter
        message = (await arrived(broker, count))[-1]
    assert (await return_call(broker, message)).dead_letter
    assert len(await messages_of(broker, "%DLQ%billing")) == 1


async def test_the_clients_own_limit_and_its_own_tries_count(broker):
    await make_group(broker)
    message = await failing_message(broker)
    assert (await return_call(broker, message, attempts_max=2, local_attempts=2)).dead_letter
    (letter,) = await messages_of(broker, "%DLQ%billing")
    assert letter.attempts == 3


async def test_a_message_is_rejected_at_once(broker):
    await make_group(broker)
    message = await failing_message(broker)
    died = retry_pb.DEAD_LETTER_REASON_CONSUMER_DIED
    answer = await return_call(broker, message, dead_letter=True, dead_letter_reason=died)
    assert answer.dead_letter
    again = await return_call(broker, message, dead_letter=True)
    assert again.duplicate
    (letter,) = await messages_of(broker, "%DLQ%billing")
    assert letter.properties["DLQ_REASON"] == "CONSUMER_DIED"


async def plain_messages(broker, topic):
    request = pull_pb.PullMessagesRequest(
        consumer_group="billing", positions=[pull_pb.PullPosition(topic=topic, queue_id=0)]
    )
    (queue,) = (await broker.pulls.PullMessages(request)).queues
    return list(queue.messages)


async def test_plain_clients_read_where_a_copy_came_from(broker):
    await make_group(broker, attempts_max=1, delays_ms=[1])
    first = await failing_message(broker, 2)
    (sent,) = await messages_of(broker, "orders", 2)
    await return_call(broker, first, cause="no stock")
    (again,) = await arrived(broker, 1)
    (plain,) = await plain_messages(broker, "%RETRY%billing")
    origin = plain.origin
    assert (origin.topic, origin.queue_id, origin.queue_offset) == ("orders", 2, 0)
    assert int(origin.message_id[-16:], 16) == sent.commit_log_offset
    assert (origin.dead_letter_reason, origin.last_error) == ("", "no stock")
    assert (plain.position.attempts, origin.attempts) == (1, 1)
    assert dict(plain.properties) == {}
    await return_call(broker, again, cause="still none")
    (letter,) = await plain_messages(broker, "%DLQ%billing")
    assert (letter.origin.topic, letter.origin.message_id) == ("orders", origin.message_id)
    assert letter.origin.dead_letter_reason == "ATTEMPTS_EXHAUSTED"
    assert (letter.origin.last_error, letter.origin.attempts) == ("still none", 2)


async def test_what_a_producer_says_of_an_origin_is_not_believed(broker):
    await broker.create_topic("orders")
    forged = {"RETRY_TOPIC": "payments", "ORIGIN_QUEUE_ID": "9", "DLQ_REASON": "none"}
    await broker.store("orders", [b"bad"], properties=forged)
    (message,) = await plain_messages(broker, "orders")
    assert not message.HasField("origin")


async def test_growing_waits_of_a_group(broker):
    growth = group_pb.ExponentialDelay(
        initial=Duration(nanos=20_000_000), max=Duration(nanos=50_000_000), multiplier=2
    )
    await make_group(broker, growth=growth)
    message = await failing_message(broker)
    for count, wait_ms in ((1, 20), (2, 40), (3, 50)):
        failed_ms = SystemClock().now_ms()
        await return_call(broker, message)
        message = (await arrived(broker, count))[-1]
        assert message.store_timestamp_ms - failed_ms >= wait_ms


async def test_a_return_whose_answer_was_lost_is_taken_once(broker):
    await make_group(broker, delays_ms=[1])
    message = await failing_message(broker)
    first = await return_call(broker, message, return_id="r-1")
    await arrived(broker, 1)
    again = await return_call(broker, message, return_id="r-1")
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.attempts == 1
    # Read once more, because somebody asked for it: that is another failure.
    assert not (await return_call(broker, message, return_id="r-2")).duplicate
    assert len(await arrived(broker, 2)) == 2


async def test_one_copy_waits_whoever_returns_it(broker):
    await make_group(broker)
    message = await failing_message(broker)
    answers = await asyncio.gather(*(return_call(broker, message) for _ in range(20)))
    assert [answer.duplicate for answer in answers].count(False) == 1
    await make_group(broker, "shipping")
    assert not (await return_call(broker, message, "shipping")).duplicate


@pytest.mark.parametrize("delays_ms", [None, [60_000]])
async def test_one_copy_waits_while_the_clock_is_doubted(shifted, delays_ms):
    broker, clock = shifted
    await make_group(broker, delays_ms=delays_ms)
    message = await failing_message(broker)
    clock.shift_ms = clock.store_shift_ms = 15 * 86_400_000
    first = await return_call(broker, message, return_id="r-1")
    again = await return_call(broker, message, return_id="r-2")
    assert (first.duplicate, again.duplicate) == (False, True)


@pytest.mark.parametrize("delays_ms", [None, [60_000]])
async def test_a_killed_broker_takes_nothing_back_twice(running, copy_store, tmp_path, delays_ms):
    async with running() as broker:
        await make_group(broker, delays_ms=delays_ms)
        message = await failing_message(broker)
        await return_call(broker, message)
        copy_store()
    (tmp_path / "copy" / "config" / "returnedMessages.json").unlink(missing_ok=True)
    async with running(store_path=tmp_path / "copy") as broker:
        assert (await return_call(broker, message)).duplicate


async def test_what_cannot_be_taken_back(broker, refused):
    message = await failing_message(broker)
    failure = await refused(return_call(broker, message))
    assert failure.reason == "GROUP_NOT_FOUND"
    await make_group(broker)
    for changes, reason in (
        ({"commit_log_offset": message.commit_log_offset + 1}, "MESSAGE_NOT_FOUND"),
        ({"commit_log_offset": 1 << 40}, "MESSAGE_NOT_FOUND"),
        ({"commit_log_offset": -1}, "MESSAGE_NOT_FOUND"),
        ({"queue_id": 1}, "MESSAGE_NOT_FOUND"),
        ({"topic": "payments"}, "TOPIC_NOT_FOUND"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "TOPIC_RESERVED"),
        ({"topic": "%RETRY%others"}, "TOPIC_RESERVED"),
        ({"attempts_max": -1}, "FIELD_INVALID"),
        ({"return_id": "x" * 65}, "FIELD_INVALID"),
        ({"delay": Duration(seconds=-1)}, "FIELD_INVALID"),
    ):
        failure = await refused(return_call(broker, message, **changes))
        assert failure.reason == reason, changes


async def test_properties_of_a_producer_do_not_pass_for_a_return(broker):
    await make_group(broker, attempts_max=0)
    forged = {"RETRY_TOPIC": "payments", "ORIGIN_QUEUE_ID": "9", "DLQ_REASON": "none"}
    message = await failing_message(broker, properties=forged | {"own": "kept"})
    await return_call(broker, message)
    (letter,) = await messages_of(broker, "%DLQ%billing")
    assert letter.properties["RETRY_TOPIC"] == "orders"
    assert letter.properties["ORIGIN_QUEUE_ID"] == "0"
    assert letter.properties["DLQ_REASON"] == "ATTEMPTS_EXHAUSTED"
    assert letter.properties["own"] == "kept"


@pytest.mark.parametrize("fields", [{}, {"dead_letter": True}])
async def test_the_largest_properties_leave_room_for_what_is_said_of_a_return(
    broker, reason_of, fields
):
    """Else the message could go nowhere, and would hold up its queue for ever."""
    group, topic = "g" * 120, "t" * 127
    await make_group(broker, group, delays_ms=[1])
    await broker.create_topic(topic)
    overhead = len("p\x01\x02") + CRC_PROPERTY_BYTES
    for more, reason in ((1, "MESSAGE_ILLEGAL"), (0, None)):
        value = "v" * (PRODUCER_PROPERTIES_BYTES_MAX - overhead + more)
        record = RecordFields(topic=topic, body=b"bad", properties={"p": value})
        block = encode_block(topic, [replace(record, body=b"x" * size) for size in (0, 40_000)])
        (result,) = await broker.append(row_of(block))
        assert (reason_of(result.error) if result.error is not None else None) == reason
    message, _ = await messages_of(broker, topic, group=group)
    answer = await return_call(
        broker, message, group, return_id="\N{OX}" * 64, cause="\N{OX}" * 9999, **fields
    )
    assert answer.dead_letter == bool(fields)


@pytest.mark.parametrize("topic", ["%DLQ%billing", "%RETRY%billing"])
async def test_a_producer_does_not_say_what_was_returned(running, crashed, topic):
    async with running() as broker:
        await make_group(broker)
        message = await failing_message(broker)
        forged = {
            "REAL_TOPIC": topic,
            "RETURNED_OFFSET": str(message.commit_log_offset),
            "DELAY": "18",
        }
        await broker.store("orders", [b"forged"], properties=forged)
        async with crashed() as survivor:
            assert not (await return_call(survivor, message)).duplicate


@pytest.mark.parametrize("fields", [{}, {"dead_letter": True}])
async def test_a_message_with_more_keys_than_the_index_takes_is_taken_back(broker, fields):
    """No client of ours sends one, and one that is stored must not hold up its queue."""
    await make_group(broker, delays_ms=[1])
    await broker.create_topic("orders")
    keys = " ".join(f"k{number}" for number in range(400))
    block = encode_block(
        "orders", [RecordFields(topic="orders", body=b"bad", properties={"KEYS": keys})]
    )
    await broker.append(row_of(block))
    (message,) = await messages_of(broker, "orders")
    await return_call(broker, message, **fields)
    topic = "%DLQ%billing" if fields else "%RETRY%billing"
    (copy,) = await arrived(broker, 1, topic)
    assert copy.properties["KEYS"] == keys


async def test_a_member_finds_the_retry_topic_before_anything_fails(broker):
    call = broker.clients.Attach()
    membership = client_pb.Membership(
        consumer_group="billing", model=client_pb.CONSUME_MODEL_CLUSTERING
    )
    hello = client_pb.ClientHello(client_id="c", memberships=[membership])
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).accepted.broker_name
    (pulled,) = await broker.pull(("%RETRY%billing", 0, 0), group="billing")
    assert not pulled.HasField("error")
    call.cancel()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("receives", [False, True])
async def test_what_came_back_of_a_deleted_topic_does_not_pass_for_messages_of_a_new_one(
    clock, broker, receives, waits
):
    await make_group(broker, delays_ms=[60_000] if waits else [0])
    for topic in ("orders", "bills"):
        await broker.create_topic(topic)
        await broker.store(topic, [b"old"])
        await return_call(broker, (await messages_of(broker, topic))[0])
    if not waits:
        came = {each.properties["RETRY_TOPIC"]: each for each in await arrived(broker, 2)}
    await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    await broker.create_topic("orders")
    await broker.store("orders", [b"new"])
    await return_call(broker, (await messages_of(broker, "orders"))[0])
    clock.advance(61)
    if receives:
        received, receiver = [], Receiver(broker)
        async with asyncio.timeout(60):
            while len(received) < 3:
                received += bodies(await receiver.receive())
        assert sorted(received) == ["new", "new", "old"]  # One is in the topic itself.
        return
    await arrived(broker, 2)
    await asyncio.sleep(0.1)  # A third one would have come with them.
    found = await messages_of(broker, "%RETRY%billing")
    assert sorted((each.properties["RETRY_TOPIC"], each.body) for each in found) == [
        ("bills", b"old"),
        ("orders", b"new"),
    ]
    if not waits:
        with pytest.raises(aio.AioRpcError) as caught:
            await return_call(broker, came["orders"])
        assert caught.value.code().name == "NOT_FOUND"
