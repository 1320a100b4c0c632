"""Tables are sent as what their rows would be as messages, and answered in columns."""

import itertools
from collections import defaultdict
from random import Random

import grpc
import numpy as np
import pyarrow as pa
import pytest

from ariane_ordering import java_string_hash
from ariane_record.decoding.arrow import COLUMN_NAMES
from ariane_record.single.compression import Compression, original_body
from ariane_record.single.producer_sequence import stored_sequence
from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    QueueReader,
    errors,
)
from ariane_sdk.message_tables import PART_OF

QUICK = ProducerSettings(
    call_timeout_s=1, send_timeout_s=60, repeat_delay_s_min=0.01, repeat_delay_s_max=0.05
)
PAIRS = pa.map_(pa.string(), pa.string())
_numbers = itertools.count()


@pytest.fixture
async def producer(world):
    async with Producer(world.name_servers) as running:
        yield running


def bodies(count, start=0):
    return pa.array([b"%d" % number for number in range(start, start + count)], pa.binary())


def stored_at(broker, result):
    """The stored message of each row of a result."""
    rows = result.select(["queueId", "queueOffset"]).to_pylist()
    return [broker.queues["orders", row["queueId"]][row["queueOffset"]] for row in rows]


async def test_every_column_arrives(world, producer):
    table = pa.table(
        {
            "flag": pa.array([-3, None, 0], pa.int32()),
            "properties": pa.array([[("a", "b")], None, []], PAIRS),
            "body": pa.array([b"one", b"", "zwölf".encode()]),
            "tag": pa.array(["created", None, ""]).dictionary_encode(),
            "keys": pa.array([["o-1", "o-2"], None, []]),
            "messageGroup": pa.array(["customer-7", None, ""]),
        }
    )

    result = await producer.send_columns("orders", table)

    one, two, three = stored_at(world.brokers["broker-a"], result)
    assert (one.body, one.tag, one.keys) == (b"one", "created", ("o-1", "o-2"))
    assert (one.message_group, one.flag, one.properties["a"]) == ("customer-7", -3, "b")
    assert [two.body, three.body] == [b"", "zwölf".encode()]
    for message in (two, three):
        assert (message.tag, message.keys, message.message_group, message.flag) == ("", (), "", 0)
        assert set(message.properties) <= {"UNIQ_KEY", "__CRC32#", "__PSEQ#"}
    assert result["messageId"].to_pylist() == [m.unique_id for m in (one, two, three)]
    assert result.column_names == ["brokerName", "queueId", "queueOffset", "messageId"]
    assert result["brokerName"].to_pylist() == ["broker-a"] * 3
    assert [field.type for field in result.schema] == [
        pa.string(), pa.int32(), pa.int64(), pa.string(),
    ]  # fmt: skip


async def test_slices_chunks_and_batches_keep_their_rows(world, producer):
    broker = world.brokers["broker-a"]
    chunked = pa.chunked_array([bodies(3), bodies(0), bodies(5, start=3)])
    batch = pa.record_batch({"body": bodies(10), "tag": pa.array(["t"] * 10)}).slice(4, 3)

    sliced = await producer.send_columns("orders", pa.table({"body": chunked}).slice(2, 4))
    from_batch = await producer.send_columns("orders", batch)
    large = pa.table({"body": bodies(2).cast(pa.large_binary())})
    from_large = await producer.send_columns("orders", large)

    assert [m.body for m in stored_at(broker, sliced)] == [b"2", b"3", b"4", b"5"]
    assert [m.body for m in stored_at(broker, from_batch)] == [b"4", b"5", b"6"]
    assert [m.body for m in stored_at(broker, from_large)] == [b"0", b"1"]


@pytest.mark.parametrize("body_bytes", [1, 5000])
async def test_bodies_alone_arrive_in_every_batch(world, body_bytes):
    broker = world.brokers["broker-a"]
    broker.script.append(grpc.StatusCode.UNAVAILABLE)
    body = pa.array([b"%d" % number * (body_bytes + number % 3) for number in range(400)])
    table = pa.table({"body": body})
    settings = ProducerSettings(batch_bytes_max=200 * (body_bytes * 3 + 250))

    async with Producer(world.name_servers, settings=settings) as producer:
        result = await producer.send_columns("orders", table)

    stored = stored_at(broker, result)
    assert [message.body for message in stored] == body.to_pylist()
    assert [message.unique_id for message in stored] == result["messageId"].to_pylist()
    assert len(broker.messages) == len(body)
    for call in broker.calls:
        for batch in call.rows:
            assert batch.sequence is not None


@pytest.mark.parametrize("rows", [bodies(0), pa.chunked_array([], pa.binary())])
async def test_no_rows_are_no_call(world, producer, rows):
    result = await producer.send_columns("orders", pa.table({"body": rows}))

    assert result.num_rows == 0
    assert result.column_names == ["brokerName", "queueId", "queueOffset", "messageId"]
    assert world.brokers["broker-a"].calls == []


async def test_groups_go_where_objects_of_theirs_go(two_brokers):
    groups = [f"g-{number % 11}" for number in range(200)] + ["", None, "Zürich", "𝄞"]
    table = pa.table({"body": bodies(len(groups)), "messageGroup": pa.array(groups)})

    async with Producer(two_brokers.name_servers) as producer:
        result = await producer.send_columns("orders", table)
        queues = (await producer.route("orders")).write_queues

    numbers = defaultdict(list)
    for row, group in zip(result.to_pylist(), groups, strict=True):
        queue = MessageQueue("orders", row["brokerName"], row["queueId"])
        if group:
            assert queue == queues[java_string_hash(group) % len(queues)]
            numbers[group].append(row["queueOffset"])
    assert all(offsets == sorted(offsets) for offsets in numbers.values())
    messages = [m for broker in two_brokers.brokers.values() for m in broker.messages]
    assert sorted(int(m.body) for m in messages) == list(range(len(groups)))
    for group in {g for g in groups if g}:
        of_group = [int(m.body) for m in messages if m.message_group == group]
        assert of_group == sorted(of_group)


async def test_a_group_keeps_its_order_among_objects_and_columns(world, producer):
    table = pa.table({"body": bodies(3, start=1), "messageGroup": pa.array(["g"] * 3)})

    first = producer.send_nowait(Message("orders", b"0", message_group="g"))
    columns = await producer.send_columns("orders", table)
    last = await producer.send(Message("orders", b"4", message_group="g"))

    offsets = [(await first).queue_offset, *columns["queueOffset"].to_pylist(), last.queue_offset]
    assert offsets == [0, 1, 2, 3, 4]


async def test_large_tables_are_cut_to_the_size_of_batches(world):
    settings = ProducerSettings(batch_bytes_max=20_000, request_bytes_max=40_000)
    sizes = [1000, 1, 50_000, 3000] * 25
    table = pa.table({"body": pa.array([bytes([n]) * size for n, size in enumerate(sizes)])})

    async with Producer(world.name_servers, settings=settings) as producer:
        result = await producer.send_columns("orders", table)

    broker = world.brokers["broker-a"]
    assert [m.body for m in stored_at(broker, result)] == table["body"].to_pylist()
    batches = [batch for call in broker.calls for batch in call.rows]
    assert len(batches) > 25
    for batch in batches:
        assert len(batch.records) <= 20_000 or len(batch.record_sizes) == 4
    for call in broker.calls:
        assert call.size_bytes < 41_000 or len(call.rows) == 1


async def test_more_than_the_buffer_takes_waits_for_room(world):
    settings = ProducerSettings(batch_bytes_max=10_000, buffered_bytes_max=30_000)
    table = pa.table({"body": pa.array([bytes(1000)] * 300)})

    async with Producer(world.name_servers, settings=settings) as producer:
        waiting = []
        whole_rows = producer._intake.whole_rows
        encode = whole_rows.new_unique_ids

        def watch(count):
            waiting.append(producer._unsettled.size_bytes)
            return encode(count)

        whole_rows.new_unique_ids = watch
        result = await producer.send_columns("orders", table)

    assert result.num_rows == len(world.brokers["broker-a"].messages) == 300
    assert max(waiting) < 30_000


async def test_columns_bear_the_names_that_they_have(world, producer):
    table = pa.table({"payload": bodies(1), "id": pa.array(["k"]), "noise": pa.array([1.5])})

    result = await producer.send_columns("orders", table, columns={"body": "payload", "keys": "id"})

    [message] = stored_at(world.brokers["broker-a"], result)
    assert (message.body, message.keys) == (b"0", ("k",))


class Exported:
    """What another library's table is to Arrow."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


async def test_tables_of_other_libraries_are_taken(world, producer):
    result = await producer.send_columns("orders", Exported(pa.table({"body": bodies(2)})))

    assert [m.body for m in stored_at(world.brokers["broker-a"], result)] == [b"0", b"1"]


UTC_MS = pa.timestamp("ms", "UTC")
CHUNKED = pa.chunked_array([bodies(2), bodies(2)])


@pytest.mark.parametrize(
    ("table", "columns", "column", "row", "clause"),
    [
        ({"tag": ["a"]}, None, "body", None, "is missing"),
        ({"body": [b"a"], "payload": [b"a"]}, None, "payload", None, "not a column of messages"),
        ({"body": [b"a"]}, {"body": "b"}, "b", None, "is not there; there are body"),
        ({"body": [b"a"]}, {"bdy": "body"}, "body", None, "'bdy' is not a column of messages"),
        ({"body": [1]}, None, "body", None, "binary or string is expected"),
        ({"b": [1]}, {"body": "b"}, "b", None, "binary or string is expected"),
        ({"body": pa.array([], pa.int8())}, None, "body", None, "binary or string"),
        ({"body": [b"a", None]}, None, "body", 1, "null"),
        ({"body": CHUNKED, "tag": ["", "a", "b", "x|y"]}, None, "tag", 3, "no '|'"),
        ({"body": CHUNKED, "t": ["a", "b", "c", " "]}, {"body": "body", "tag": "t"}, "t", 3, "sp"),
        ({"body": CHUNKED, "keys": [[], [], [], ["a b"]]}, None, "keys", 3, "a space"),
        (
            {"body": [b"a"], "properties": pa.array([[("WAIT", "x")]], PAIRS)},
            None,
            "properties",
            0,
            "properties of the system",
        ),
        ({"body": [b"x" * 5000]}, None, "body", 0, "5000 bytes; 4000 are allowed"),
        (
            {"body": [b"a"], "deliveryTimestamp": pa.array([1], pa.timestamp("ms"))},
            *(None, "deliveryTimestamp", None, "with a time zone"),
        ),
        (
            {"body": CHUNKED, "t": pa.array([1, 1, None, -1], UTC_MS)},
            *({"body": "body", "deliveryTimestamp": "t"}, "t", 3, "before 1970"),
        ),
        (
            {
                "body": CHUNKED,
                "messageGroup": ["g", "", "", "g"],
                "deliveryTimestamp": pa.array([None, 1, None, 1], UTC_MS),
            },
            *(None, "deliveryTimestamp", 3, "cannot be delayed"),
        ),
    ],
)
async def test_an_illegal_row_is_refused_before_any_row_is_sent(
    world, table, columns, column, row, clause
):
    settings = ProducerSettings(body_bytes_max=4000)
    async with Producer(world.name_servers, settings=settings) as producer:
        with pytest.raises(errors.ColumnIllegal) as refusal:
            await producer.send_columns("orders", pa.table(table), columns=columns)

    assert clause in str(refusal.value)
    assert (refusal.value.column, refusal.value.row) == (column, row)
    assert isinstance(refusal.value, ValueError)
    assert world.brokers["broker-a"].calls == []


async def test_columns_are_spelled_alike_in_tables_in_arguments_and_when_read(producer):
    grouped = pa.table({"payload": bodies(1), "who": ["g"]})
    with pytest.raises(errors.ColumnIllegal, match="those are body, tag, keys, messageGroup"):
        await producer.send_columns(
            "orders", grouped, columns={"body": "payload", "message_group": "who"}
        )
    await producer.send_columns(
        "orders", grouped, columns={"body": "payload", "messageGroup": "who"}
    )
    assert set(PART_OF) - {"flag"} <= set(COLUMN_NAMES)


async def test_an_unknown_topic_is_told(producer):
    with pytest.raises(errors.SendError):
        await producer.send_columns("nowhere", pa.table({"body": bodies(1)}))
    with pytest.raises(errors.NameIllegal):
        await producer.send_columns("a b", pa.table({"body": bodies(1)}))


async def test_a_producer_that_is_not_running_refuses_columns(world):
    with pytest.raises(errors.ClientNotRunning):
        await Producer(world.name_servers).send_columns("orders", pa.table({"body": bodies(1)}))


async def test_rows_surely_not_stored_are_repeated(world):
    broker = world.brokers["broker-a"]
    broker.script.append(grpc.StatusCode.UNAVAILABLE)

    async with Producer(world.name_servers, settings=QUICK) as producer:
        result = await producer.send_columns("orders", pa.table({"body": bodies(5)}))

    assert [m.body for m in stored_at(broker, result)] == [b"%d" % n for n in range(5)]
    assert len(broker.messages) == 5


async def test_rows_that_may_be_stored_are_repeated_under_the_same_numbers(world):
    broker = world.brokers["broker-a"]
    broker.script.append("store and hang")

    async with Producer(world.name_servers, settings=QUICK) as producer:
        await producer.send_columns("orders", pa.table({"body": bodies(5)}))

    [[first], [again]] = [call.rows for call in broker.calls]
    assert first.sequence.producer_id
    assert again == first
    said = stored_sequence(first.records)
    assert said.record_count == 5
    assert said.sequence.producer_id == first.sequence.producer_id


async def test_each_row_has_its_own_outcome(world, make_status):
    broker = world.brokers["broker-a"]
    refused = make_status(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE")
    unconfirmed = make_status(grpc.StatusCode.UNAVAILABLE, "FLUSH_UNCONFIRMED")
    broker.script += ["store", [refused], [unconfirmed]]
    settings = ProducerSettings(batch_bytes_max=1, request_bytes_max=1, idempotent=False)

    async with Producer(world.name_servers, settings=settings) as producer:
        with pytest.raises(errors.ColumnsSendError) as partial:
            await producer.send_columns("orders", pa.table({"body": bodies(4)}))

    outcomes = partial.value.outcomes
    assert outcomes["outcome"].to_pylist() == ["stored", "refused", "unknown", "stored"]
    assert outcomes["reason"].to_pylist() == [None, "MESSAGE_TOO_LARGE", "FLUSH_UNCONFIRMED", None]
    assert outcomes["queueOffset"].is_valid().to_pylist() == [True, False, False, True]
    assert all(len(unique_id) == 32 for unique_id in outcomes["messageId"].to_pylist())
    assert partial.value.outcome_unknown
    assert "2 of 4 rows" in str(partial.value)
    assert len(partial.value.errors) == 2


async def test_time_may_be_up(world):
    broker = world.brokers["broker-a"]
    broker.script += ["store", "hang"]
    settings = ProducerSettings(batch_bytes_max=400, request_bytes_max=400, buffered_bytes_max=700)
    table = pa.table({"body": pa.array([bytes(200)] * 20)})

    async with Producer(world.name_servers, settings=settings) as producer:
        with pytest.raises(errors.ColumnsSendError) as late:
            await producer.send_columns("orders", table, timeout_s=0.3)

    outcomes = late.value.outcomes["outcome"].to_pylist()
    assert outcomes[:2] == ["stored", "unknown"]
    assert set(outcomes[2:]) == {"refused"}
    assert late.value.outcomes["messageId"].to_pylist()[-1] is None


async def test_columns_and_objects_give_the_same_records_in_a_real_cluster(cluster):
    topic = f"columns-{next(_numbers)}"
    count = 5000
    numbers = np.arange(count)
    table = pa.table(
        {
            "body": pa.array([b"body %d" % n for n in numbers]),
            "tag": pa.array([f"tag-{n % 7}" if n % 3 else None for n in numbers]),
            "keys": pa.array([[f"k{n}", "shared"] if n % 2 else [] for n in numbers]),
            "messageGroup": pa.array([f"g-{n % 13}" if n % 5 else "" for n in numbers]),
            "properties": pa.array([[("n", str(n))] if n % 4 else None for n in numbers], PAIRS),
        }
    )

    async with Producer(cluster.name_servers) as producer:
        result = await producer.send_columns(topic, table)
    stored = {}
    async with QueueReader(cluster.name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                for position in range(len(columns)):
                    message = columns.message(position)
                    place = (queue.broker_name, queue.queue_id, message.queue_offset)
                    stored[place] = message

    assert len(stored) == count
    for row, place in zip(table.to_pylist(), result.to_pylist(), strict=True):
        message = stored[place["brokerName"], place["queueId"], place["queueOffset"]]
        assert message.body == row["body"]
        assert message.tag == (row["tag"] or "")
        assert message.keys == tuple(row["keys"])
        assert message.message_group == row["messageGroup"]
        assert message.unique_id == place["messageId"]
        assert message.properties.get("n") == dict(row["properties"] or ()).get("n")


@pytest.mark.parametrize("kind", [Compression.LZ4, Compression.ZSTD, Compression.ZLIB])
async def test_large_bodies_are_compressed(world, kind):
    settings = ProducerSettings(compression=kind)
    small, large, noise = b"s" * 4095, b"l" * 4096, Random(1).randbytes(5000)
    table = pa.table({"body": [small, large, noise, large], "tag": ["0", "1", "2", "3"]})

    async with Producer(world.name_servers, settings=settings) as producer:
        result = await producer.send_columns("orders", table.slice(1))
        from_large = await producer.send_columns(
            "orders", pa.table({"body": table["body"].cast(pa.large_binary())})
        )

    broker = world.brokers["broker-a"]
    for rows, bodies in (
        (stored_at(broker, result), [large, noise, large]),
        (stored_at(broker, from_large), [small, large, noise, large]),
    ):
        assert [bool(row.system_flag) for row in rows] == [body == large for body in bodies]
        assert [original_body(row.body, row.system_flag) for row in rows] == bodies
        assert all(len(row.body) < 100 for row in rows if row.system_flag)


async def test_compressed_tables_come_as_they_were_sent(cluster):
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("packed-tables", exists_ok=True)
    texts = [b"%d " % number * (2000 if number % 3 else 1) for number in range(3000)]
    groups = [f"g-{number % 5}" if number % 2 else None for number in range(3000)]
    table = pa.table({"body": texts, "messageGroup": groups})
    settings = ProducerSettings(compression=Compression.LZ4, compress_bytes_min=1000)

    async with Producer(cluster.name_servers, settings=settings) as producer:
        result = await producer.send_columns("packed-tables", table)

    assert result.num_rows == 3000
    found = {}
    compressed = 0
    async with QueueReader(cluster.name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds("packed-tables")).items():
            async for columns in reader.read_range(queue, begin, end):
                compressed += len(columns.compressed_positions())
                for offset, body in zip(columns.queue_offset, columns.bodies(), strict=True):
                    found[queue.broker_name, queue.queue_id, int(offset)] = body
    places = zip(*(result[name].to_pylist() for name in result.column_names[:3]), strict=True)
    assert list(map(found.__getitem__, places)) == texts
    assert compressed == 2000
