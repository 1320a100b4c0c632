"""A member of a group that fetches record batches."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk import Message, MessageQueue, Producer, PullConsumer, QueueReader, errors, sync
from ariane_sdk.consumer.polling.column_window import ColumnWindow
from ariane_sdk.consumer.pulling import pull_loop as _pull_loop

QUEUE = MessageQueue("orders", "broker-a", 0)
_numbers = itertools.count()


@pytest.fixture
def topic():
    return f"consumed-columns-{next(_numbers)}"


async def send(cluster, topic, count):
    table = pa.table(
        {
            "body": pa.array([b"%d" % n for n in range(count)]),
            "tag": pa.array(["even" if n % 2 == 0 else "odd" for n in range(count)]),
        }
    )
    async with Producer(cluster.name_servers) as producer:
        await producer.send_columns(topic, table)


def consumer_of(cluster, topic, **options):
    return PullConsumer(
        cluster.name_servers,
        group=f"group-of-{topic}",
        start="earliest",
        **{"subscriptions": {topic: "*"}, "column_names": ["queueOffset", "tag", "body"]} | options,
    )


async def read(consumer, count):
    """Batches until so many rows have come."""
    batches = []
    async for batch in consumer.columns():
        batches.append(batch)
        if sum(map(len, batches)) >= count:
            break
    return pa.Table.from_batches(batches)


async def test_batches_come_and_what_was_done_is_stored(cluster, topic):
    await send(cluster, topic, 2500)
    async with consumer_of(cluster, topic) as consumer:
        table = await read(consumer, 2500)
    async with QueueReader(cluster.name_servers) as reader:
        stored = await reader.stored_offsets(f"group-of-{topic}", topic)

    assert table.column_names == ["queueOffset", "tag", "body"]
    assert sorted(map(int, table["body"].to_pylist())) == list(range(2500))
    assert sum(stored.values()) == 2500


@pytest.mark.parametrize(
    ("names", "alone"), [(["queueOffset", "body"], True), (["tag", "body"], False)]
)
async def test_bodies_come_alone_where_they_suffice(cluster, topic, monkeypatch, names, alone):
    came = []
    fill_as_ever = _pull_loop.fill

    def fill(work, pulled, tag_filter):
        came.append(bool(pulled.bodies))
        fill_as_ever(work, pulled, tag_filter)

    monkeypatch.setattr(_pull_loop, "fill", fill)
    bodies = [b"%09d" % number for number in range(5000)]
    async with Producer(cluster.name_servers) as producer:
        await producer.send_columns(topic, pa.table({"body": pa.array(bodies)}))
    async with consumer_of(cluster, topic, column_names=names) as consumer:
        table = await read(consumer, 5000)
    async with QueueReader(cluster.name_servers) as reader:
        stored = await reader.stored_offsets(f"group-of-{topic}", topic)

    assert any(came) == alone
    assert table.column_names == names
    assert sorted(table["body"].to_pylist()) == bodies
    assert sum(stored.values()) == 5000


async def test_without_auto_commit_what_is_not_committed_comes_again(cluster, topic):
    await send(cluster, topic, 10)
    async with consumer_of(cluster, topic, auto_commit=False) as consumer:
        await read(consumer, 10)
    async with consumer_of(cluster, topic, auto_commit=False) as consumer:
        again = await read(consumer, 10)
        await consumer.commit()
    async with QueueReader(cluster.name_servers) as reader:
        stored = await reader.stored_offsets(f"group-of-{topic}", topic)

    assert again.num_rows == 10
    assert sum(stored.values()) == 10


async def test_tags_are_chosen(cluster, topic):
    await send(cluster, topic, 100)
    options = {"subscriptions": {topic: "even"}, "column_names": ["body"]}
    async with consumer_of(cluster, topic, **options) as consumer:
        table = await read(consumer, 50)

    assert sorted(map(int, table["body"].to_pylist())) == list(range(0, 100, 2))


async def test_seek_goes_back(cluster, topic):
    async with Producer(cluster.name_servers) as producer:
        messages = [Message(topic, b"%d" % n, message_group="g") for n in range(10)]
        queue = (await producer.send_batch(messages))[0].message_queue
    async with consumer_of(cluster, topic) as consumer:
        await read(consumer, 10)
        await consumer.seek(queue, 7)
        table = await read(consumer, 3)

    assert table["body"].to_pylist() == [b"7", b"8", b"9"]


def test_without_a_loop(cluster, topic):
    with sync.Producer(cluster.name_servers) as producer:
        producer.send_columns(topic, pa.table({"body": pa.array([b"x"] * 5)}))
    rows = 0
    with sync.PullConsumer(
        cluster.name_servers,
        group=f"group-of-{topic}",
        subscriptions={topic: "*"},
        start="earliest",
        column_names=["brokerName"],
    ) as consumer:
        for batch in consumer.columns():
            rows += batch.num_rows
            if rows == 5:
                break

    assert rows == 5


async def test_messages_and_columns_are_not_mixed(cluster, topic):
    with pytest.raises(errors.IllegalArgument, match="no column 'bdoy'"):
        consumer_of(cluster, topic, column_names=["bdoy"])
    async with consumer_of(cluster, topic, subscriptions=None) as consumer:
        with pytest.raises(errors.IllegalArgument, match="use `columns`"):
            await consumer.poll()
    async with consumer_of(cluster, topic, subscriptions=None, column_names=None) as consumer:
        with pytest.raises(errors.IllegalArgument, match="column_names"):
            await anext(consumer.columns())


def test_a_window_counts_what_waits():
    encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
    for number in range(6):
        encoder.add(b"%d" % number, tag="ab"[number % 2], born_timestamp_ms=0)
    block = encoder.finish()
    headers = bytearray(block.records)
    starts = np.cumsum(block.sizes) - block.sizes
    for number, start in enumerate(starts.tolist()):
        headers[start + 20 : start + 28] = (40 + number).to_bytes(8)
    window = ColumnWindow(QUEUE, 40, ["body"])

    window.put_records(bytes(headers), block.sizes, 46, ["b"])
    window.put_records(bytes(headers), block.sizes, 52, [])

    assert (window.message_count, window.next_pull_offset) == (9, 52)
    assert window.size_bytes == block.sizes[1::2].sum() + block.sizes.sum()
    assert (window.consumer_offset, window.span) == (41, 4)
    assert window.take_batch().to_pylist() == [{"body": body} for body in (b"1", b"3", b"5")]
    assert (window.message_count, window.consumer_offset) == (6, 40)
    window.drop_waiting()
    assert (window.message_count, window.size_bytes, window.next_pull_offset) == (0, 0, 40)
    assert window.take_batch() is None
