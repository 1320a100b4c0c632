"""Broken and hostile sends: typed errors, and a store in which nothing of them is found."""

from dataclasses import replace

import numpy as np
import pytest
from grpc import StatusCode, aio

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_record import tag_code
from ariane_record.checksums.checksum import crc32


async def log_end(broker):
    state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return state.store.max_commit_log_offset


def with_byte(column, place, value):
    octets = bytearray(column)
    octets[place] = value
    return bytes(octets)


def resized(batch, place, change):
    sizes = np.frombuffer(batch.record_sizes, "<i4").copy()
    sizes[place] += change
    return sizes.tobytes()


BREAKAGES = {
    "one byte of a body": lambda batch: replace(batch, records=with_byte(batch.records, 90, 0)),
    "its checksum": lambda batch: replace(batch, records_crc32=batch.records_crc32 ^ 1),
    "records cut short": lambda batch: replace(batch, records=batch.records[:-1]),
    "bytes behind the records": lambda batch: replace(batch, records=batch.records + b"\0"),
    "no records": lambda batch: replace(batch, records=b""),
    "nothing at all": lambda batch: replace(
        batch, records=b"", record_sizes=b"", tag_codes=b"", key_counts=b"", key_hashes=b""
    ),
    "no sizes": lambda batch: replace(batch, record_sizes=b""),
    "half a size": lambda batch: replace(batch, record_sizes=batch.record_sizes[:-2]),
    "sizes shifted": lambda batch: replace(batch, record_sizes=resized(batch, 0, 4)),
    "a negative size": lambda batch: replace(batch, record_sizes=resized(batch, 0, -(2**31))),
    "a huge size": lambda batch: replace(batch, record_sizes=resized(batch, 0, 2**31 - 1000)),
    "one size too many": lambda batch: replace(batch, record_sizes=batch.record_sizes + b"\0" * 4),
    "no tag codes": lambda batch: replace(batch, tag_codes=b""),
    "half a tag code": lambda batch: replace(batch, tag_codes=batch.tag_codes[:-1]),
    "no key counts": lambda batch: replace(batch, key_counts=b""),
    "key counts that promise more": lambda batch: replace(batch, key_counts=b"\xff" * 3),
    "half a key hash": lambda batch: replace(batch, key_hashes=batch.key_hashes[:-3]),
    "a negative key hash": lambda batch: replace(
        batch, key_hashes=with_byte(batch.key_hashes, 3, 0x80)
    ),
    "records of another topic": lambda batch: replace(batch, topic="bills"),
}


async def test_a_broken_block_leaves_nothing(broker, reason_of):
    await broker.create_topic("orders")
    await broker.create_topic("bills")
    good = broker.batch("orders", [b"a" * 20, b"b" * 30, b"c"], keys=("k", "l", "m"))
    for breakage, broken in BREAKAGES.items():
        (result,) = await broker.append(broken(good))
        assert result.error is not None, breakage
        assert reason_of(result.error) == "BLOCK_CORRUPTED", breakage
        assert await log_end(broker) == 0, breakage
    (result,) = await broker.append(good)
    assert result.first_queue_offset == 0
    assert len(await broker.bodies("orders")) == 3


@pytest.mark.parametrize("count", [1, 20, 200])
async def test_a_code_of_another_tag_is_refused_on_every_way_in(broker, reason_of, count):
    def refuse(result):
        assert reason_of(result.error) == "BLOCK_CORRUPTED"
        assert "its tag code is not that of its tag" in result.error.message

    await broker.create_topic("orders", 2)
    good = broker.batch("orders", [b"a"] * count, tags=["red"] * count)
    lies = np.full(count, tag_code("blue"), "<i4").tobytes()
    due = np.ones(count, "<i8").tobytes()
    end = await log_end(broker)
    for way in ({}, {"delay_level": 1}, {"delivery_times_ms": due}):
        (result,) = await broker.append(replace(good, tag_codes=lies, **way))
        refuse(result)
        assert await log_end(broker) == end
    table = send_pb.AppendTable(
        topics=["orders"] * 2,
        queue_ids=np.array([0, 1], "<i4").tobytes(),
        record_counts=np.array([count, count], "<i4").tobytes(),
        record_sizes=good.record_sizes * 2,
        tag_codes=good.tag_codes + lies,
        key_counts=good.key_counts * 2,
        key_hashes=good.key_hashes * 2,
        records_crc32=crc32(good.records * 2),
    )
    await broker.store("orders", [b"first"])  # Behind which tables may be stored as a whole.
    request = send_pb.AppendRecordsRequest(table=table, table_records=good.records * 2)
    (refused,) = (await broker.sends.AppendRecords(request)).table_result.rows
    assert refused.row == 1
    refuse(refused)
    assert await broker.bodies("orders", 1) == []


async def test_a_damaged_record_is_refused_although_the_checksum_of_the_block_fits(
    broker, reason_of
):
    await broker.create_topic("orders")
    good = broker.batch("orders", [b"a" * 20])
    for place, value in ((4, 0), (84, 0x7F), (36, 0x10), (len(good.records) - 20, 0x41)):
        records = with_byte(good.records, place, value)
        bad = replace(good, records=records, records_crc32=crc32(records))
        (result,) = await broker.append(bad)
        assert reason_of(result.error) == "BLOCK_CORRUPTED", place
    assert await log_end(broker) == 0


async def test_a_broken_block_creates_no_topic(broker, reason_of, refused):
    bad = replace(broker.batch("fresh", [b"a"]), records_crc32=1)
    (result,) = await broker.append(bad)
    assert reason_of(result.error) == "TOPIC_NOT_FOUND"
    failure = await refused(broker.topics.GetTopic(topic_pb.GetTopicRequest(topic="fresh")))
    assert failure.reason == "TOPIC_NOT_FOUND"


ILLEGAL_NAMES = (
    *("", ".", "..", "../../etc/x", "a/b", "x" * 128, "nul\0", "trailing ", "new\nline"),
    *("\N{GRINNING FACE}", "\N{RIGHT-TO-LEFT MARK}a", "e\N{COMBINING ACUTE ACCENT}"),
)

SYSTEM_NAMES = (
    *("SCHEDULE_TOPIC_XXXX", "%RETRY%group", "%DLQ%group", "RMQ_SYS_TRANS_HALF_TOPIC"),
    *("rmq_sys_anything", "TBW102", "TRANS_CHECK_MAX_TIME_TOPIC", "%RETRY%../../x"),
)


def with_text(batch, text):
    """The batch with other letters in a property, and all checksums as they should be."""
    assert len(text.encode()) == 3
    records = batch.records.replace(b"a!b", text.encode())
    assert records != batch.records
    return replace(batch, records=records, records_crc32=crc32(records))


@pytest.mark.parametrize("sign", ["\x00", "\x01", "\x02", "\n", "\x1b", "\x7f"], ids=ascii)
@pytest.mark.parametrize("count", [1, 20, 200])
async def test_control_characters_in_packed_records(broker, reason_of, sign, count):
    def batch(number):
        bodies = [b"body"] * count
        return broker.batch(f"topic-{number}", bodies, properties={"name": "a!b"})

    await broker.store("topic-0", [b"as it should be"], properties={"name": "a!b"})
    end = await log_end(broker)
    # One batch, and many of one request, which are looked at together.
    for batches in ([batch(0)], [batch(number) for number in range(1 + 40 // count)]):
        await broker.append(*batches)
        before = await log_end(broker)
        results = await broker.append(*(with_text(each, f"a{sign}b") for each in batches))
        assert {reason_of(result.error) for result in results} == {"BLOCK_CORRUPTED"}
        assert "control character" in results[0].error.message
        assert await log_end(broker) == before > end
    (result,) = await broker.append(with_text(batch(0), "a\u00a0"))
    assert result.error is None


@pytest.mark.parametrize(
    "part",
    [
        {"tag": "a\nb"},
        {"keys": ["a\x00b"]},
        {"message_group": "a\x1bb"},
        {"unique_id": "a\x85b"},
        {"properties": {"a\nb": "value"}},
        {"properties": {"name": "\x9b31m"}},
    ],
    ids=lambda part: next(iter(part)),
)
async def test_control_characters_in_plain_messages(broker, refused, part):
    await broker.create_topic("orders")
    message = message_pb.Message(topic="orders", body=b"any\x1b\x00\nbytes", **part)
    request = send_pb.SendMessagesRequest(topic="orders", messages=[message])
    failure = await refused(broker.sends.SendMessages(request))
    assert (failure.reason, failure.code) == ("MESSAGE_ILLEGAL", "INVALID_ARGUMENT")
    assert "control character" in failure.metadata["rule"]


@pytest.mark.parametrize("group", ["a\nb", "a\n", "\x00", "a\x85"], ids=ascii)
async def test_control_characters_in_names_of_groups(broker, refused, group):
    await broker.store("orders", [b"a"])
    for call in (
        broker.store_offset(group, "orders", 0, 1),
        broker.pull(("orders", 0, 0), group=group),
        broker.known_offset(group, "orders"),
    ):
        assert (await refused(call)).reason in {"GROUP_NAME_ILLEGAL", "GROUP_NOT_FOUND"}


@pytest.mark.parametrize("client_id", ["a\nb", "\x00", "a\x9b"], ids=ascii)
async def test_control_characters_in_ids_of_clients(broker, refused, client_id):
    async def attach():
        call = broker.clients.Attach()
        hello = client_pb.ClientHello(client_id=client_id)
        await call.write(client_pb.AttachRequest(hello=hello))
        return await call.read()

    failure = await refused(attach())
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "hello.client_id")


async def test_illegal_topic_names(broker, reason_of, refused, tmp_path):
    for name in ILLEGAL_NAMES:
        (result,) = await broker.append(replace(broker.batch("orders", [b"a"]), topic=name))
        assert reason_of(result.error) == "TOPIC_NAME_ILLEGAL", name
        request = topic_pb.CreateTopicRequest(topic=topic_pb.Topic(topic=name))
        failure = await refused(broker.topics.CreateTopic(request))
        assert (failure.reason, failure.code) == ("TOPIC_NAME_ILLEGAL", "INVALID_ARGUMENT"), name
        send = send_pb.SendMessagesRequest(topic=name, messages=[{"body": b"a"}])
        assert (await refused(broker.sends.SendMessages(send))).reason == "TOPIC_NAME_ILLEGAL"
    assert list((tmp_path / "store" / "consumequeue").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


async def test_system_topics_are_not_for_users(broker, reason_of, refused):
    for name in SYSTEM_NAMES:
        (result,) = await broker.append(replace(broker.batch("orders", [b"a"]), topic=name))
        assert reason_of(result.error) == "TOPIC_RESERVED"
        update = topic_pb.UpdateTopicRequest(topic=name, read_queue_count=9)
        for call, request in (
            (broker.topics.CreateTopic, topic_pb.CreateTopicRequest(topic={"topic": name})),
            (broker.topics.UpdateTopic, update),
            (broker.topics.DeleteTopic, topic_pb.DeleteTopicRequest(topic=name)),
            (broker.sends.SendMessages, send_pb.SendMessagesRequest(topic=name, messages=[{}])),
        ):
            failure = await refused(call(request))
            assert (failure.reason, failure.code) == ("TOPIC_RESERVED", "PERMISSION_DENIED"), name


async def test_queues_that_are_not_there(broker, reason_of, refused):
    await broker.create_topic("orders", 2)
    for queue_id in (2, 1_000_000_000, 2**31 - 1):
        (result,) = await broker.append(broker.batch("orders", [b"a"], queue_id))
        assert reason_of(result.error) == "QUEUE_NOT_FOUND"
    for queue_id in (-1, -(2**31)):
        good, lost = broker.batch("orders", [b"good"]), broker.batch("orders", [b"a"], queue_id)
        failure = await refused(broker.append(good, lost))
        assert failure.metadata["field"] == "table.queue_ids[1]"
    assert await log_end(broker) == 0


async def test_a_request_beyond_the_transport_limit(broker, refused):
    await broker.create_topic("orders")
    with pytest.raises(aio.AioRpcError) as raised:
        await broker.append(broker.batch("orders", [b"x" * (6 << 20)]))
    assert raised.value.code() is StatusCode.RESOURCE_EXHAUSTED
    assert await log_end(broker) == 0


async def test_bytes_that_are_no_request(broker, refused):
    call = broker.channel.unary_unary("/ariane.broker.v1.SendService/AppendRecords")
    assert (await refused(call(b"\xff\xff\xff\xff"))).reason == "FIELD_INVALID"


async def test_odd_octets_of_requests_are_ignored_or_refused(broker, refused):
    await broker.create_topic("orders")
    call = broker.channel.unary_unary("/ariane.broker.v1.SendService/SendMessages")
    good = send_pb.SendMessagesRequest(topic="orders", messages=[{"body": b"a"}])
    octets = good.SerializeToString()
    unknown = bytes([0xC0, 0x3E, 7])  # Field 1000, which a later contract may have.
    other_topic = bytes([1 << 3 | 2, 4]) + b"else"
    deep = b"\xc3\x3e" * 200 + b"\xc4\x3e" * 200
    await call(octets + unknown)
    await call(other_topic + octets)  # Of a field that comes twice the last one counts.
    assert await broker.bodies("orders") == [b"a", b"a"]
    for odd in (octets + deep, octets.replace(b"orders", b"\xff" * 6)):
        assert (await refused(call(odd))).reason == "FIELD_INVALID"
    assert await broker.bodies("orders") == [b"a", b"a"]


async def test_a_sequence_that_the_records_do_not_say(broker, reason_of, refused):
    await broker.create_topic("orders")
    batch = broker.batch("orders", [b"a"])
    batch.sequence = send_pb.ProducerSequence(producer_id=7)
    (result,) = await broker.append(batch)
    assert reason_of(result.error) == "BLOCK_CORRUPTED"
    told = broker.batch("orders", [b"a"], sequence=(7, 0, 0))
    for numbers in (None, {"producer_id": 8}, {"producer_id": 7, "first_sequence": 1}):
        said = None if numbers is None else send_pb.ProducerSequence(**numbers)
        (result,) = await broker.append(replace(told, sequence=said))
        assert reason_of(result.error) == "BLOCK_CORRUPTED"
    for numbers in ({"producer_id": -1}, {"producer_id": 1, "first_sequence": -2}):
        said = send_pb.ProducerSequence(**numbers)
        failure = await refused(broker.append(replace(told, sequence=said)))
        assert failure.reason == "FIELD_INVALID"
    request = send_pb.SendMessagesRequest(
        topic="orders", messages=[{"body": b"a"}], sequence={"producer_id": 7}
    )
    assert (await refused(broker.sends.SendMessages(request))).reason == "FIELD_INVALID"
    assert await log_end(broker) == 0


@pytest.mark.parametrize(
    ("begin", "each"),
    [
        (b"", send_pb.AppendRecordsRequest(table={"topics": [""]})),
        (bytes([15 << 3 | 2, 0]), send_pb.AppendRecordsRequest(table={"topics": ["x" * 99]})),
    ],
)
async def test_too_many_batches_are_refused_by_their_number(broker, refused, begin, each):
    """However many: they are counted, and the broker goes on at once."""
    call = broker.channel.unary_unary("/ariane.broker.v1.SendService/AppendRecords")
    one = each.SerializeToString()
    count = (3 << 20) // len(one)
    failure = await refused(call(begin + one * count))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", "table.topics")
