"""Filters in the consumer's own process: as those of the broker, and nothing silent."""

import asyncio
import itertools
import logging
import zlib

import numpy as np
import pytest
from grpc import aio

from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane_record.layout import SystemFlag
from ariane_record.names import dead_letter_topic
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk import (
    Local,
    Message,
    Producer,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    QueueReader,
    Sql,
)
from ariane_sdk.checks.local_filter import LocalFilter
from ariane_sdk.consumer.pulling.received_messages import received_messages
from ariane_sdk.errors import FilterFailed, FilterIllegal, RouteNotFound
from ariane_sdk.message_queue import MessageQueue
from ariane_sql92.testing.reference import judge_plainly
from ariane_testkit.append_rows import row_of, rows_request

LATE = "origin = 'JFK' AND dep_delay > 60"
WANTED = list(range(63, 300, 3))
_numbers = itertools.count()


def late(message):
    """What the condition says, as a function; and that the body is there."""
    delay = int(message.properties["dep_delay"])
    return message.properties["origin"] == "JFK" and int(bytes(message.body)) == delay > 60


@pytest.fixture
def topic():
    return f"local-filters-{next(_numbers)}"


async def send(cluster, topic):
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch(
            [
                Message(
                    topic,
                    b"%d" % number,
                    tag=f"t{number % 2}",
                    properties={
                        "origin": ("JFK", "LGA", "EWR")[number % 3],
                        "dep_delay": str(number),
                    },
                )
                for number in range(300)
            ]
        )


@pytest.mark.parametrize("wanted", [Local(Sql(LATE)), Local(late), Sql(LATE)])
@pytest.mark.parametrize("column_names", [None, ["body"]])
async def test_a_consumer_gets_what_matches_and_commits_the_rest(
    cluster, topic, wanted, column_names
):
    await send(cluster, topic)
    group, found = f"group-of-{topic}", []
    async with PullConsumer(
        cluster.name_servers,
        group=group,
        subscriptions={topic: wanted},
        start="earliest",
        column_names=column_names,
    ) as consumer:
        async with asyncio.timeout(90):
            if column_names is None:
                while len(found) < len(WANTED):
                    found += [int(message.body) for message in await consumer.poll(timeout_s=30)]
            else:
                async for batch in consumer.columns():
                    found += map(int, batch["body"].to_pylist())
                    if len(found) >= len(WANTED):
                        break
    assert sorted(found) == WANTED


async def test_messages_that_do_not_match_count_as_consumed(cluster, topic):
    await send(cluster, topic)
    group = f"group-of-{topic}"
    async with (
        QueueReader(cluster.name_servers) as reader,
        PushConsumer(
            cluster.name_servers,
            group=group,
            subscriptions={topic: Local(lambda message: False)},
            listener=pytest.fail,
            start="earliest",
            settings=PushSettings(offset_store_interval_s=0.1),
        ),
        asyncio.timeout(90),
    ):
        ends = {queue: end for queue, (_, end) in (await reader.bounds(topic)).items()}
        while await reader.stored_offsets(group, topic) != ends:  # noqa: ASYNC110 - of a broker.
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("odd", [None, 1, "yes"])
async def test_a_filter_that_fails_passes_nothing_and_says_so(cluster, topic, caplog, odd):
    await send(cluster, topic)

    def fails(message):
        if message.properties["dep_delay"] == "100":
            return odd or {}["missing"]
        return True

    found = []
    with caplog.at_level(logging.WARNING):
        async with (
            PullConsumer(
                cluster.name_servers,
                group=f"group-of-{topic}",
                subscriptions={topic: Local(fails)},
                start="earliest",
            ) as consumer,
            asyncio.timeout(90),
        ):
            while "the local filter" not in caplog.text:
                found += [int(message.body) for message in await consumer.poll(timeout_s=0.1)]
    said = "raised KeyError at queue offset" if odd is None else f"answered {odd!r}"
    assert said in caplog.text
    assert 100 not in found


async def test_a_damaged_body_that_the_filter_looks_into_is_a_dead_letter(cluster, topic):
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20)
    flag = int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZLIB)
    for row in range(6):
        body = b"%d" % row
        kept = body if row in {1, 4} else zlib.compress(body)
        encoder.add(kept, system_flag=flag, born_timestamp_ms=1)
    row = row_of(encoder.finish())
    async with aio.insecure_channel(cluster.brokers[0].address) as channel:
        await SendServiceStub(channel).AppendRecords(rows_request([row]))

    def odd_body(message):
        return int(bytes(message.body)) != 2

    found, group = [], f"group-of-{topic}"
    async with (
        PullConsumer(
            cluster.name_servers,
            group=group,
            subscriptions={topic: Local(odd_body)},
            start="earliest",
        ) as consumer,
        asyncio.timeout(90),
    ):
        while len(found) < 3:
            found += [int(bytes(message.body)) for message in await consumer.poll(timeout_s=5)]
        letters = []
        async with QueueReader(cluster.name_servers) as reader:
            while len(letters) < 2:
                try:
                    bounds = await reader.bounds(dead_letter_topic(group))
                except RouteNotFound:
                    bounds = {}
                letters = [
                    columns.message(row).body
                    for queue, (begin, end) in bounds.items()
                    async for columns in reader.read_range(queue, begin, end)
                    for row in range(len(columns))
                ]
    assert sorted(found) == [0, 3, 5]
    assert sorted(map(bytes, letters)) == [b"1", b"4"]


def test_a_condition_is_judged_for_a_batch_as_the_plain_evaluator_does():
    encoder = BlockEncoder("flights", size_bytes_max=1 << 20)
    rows = [
        {"origin": origin, "dep_delay": delay}
        for origin in ("JFK", "LGA", "")
        for delay in ("61", "60", "", "many", "-1", "+61", "61.0")
    ]
    for row in rows:
        properties = {name: value for name, value in row.items() if value}
        encoder.add(b"x", properties=properties, born_timestamp_ms=1)
    block = encoder.finish()

    def messages():
        return received_messages(block.records, block.sizes, MessageQueue("flights", "b", 0))

    for text in (LATE, "dep_delay IS NULL OR dep_delay < 60", "NOT (origin = 'JFK')"):
        mask = LocalFilter(Local(Sql(text))).mask(block.records, block.sizes, pytest.fail)
        expected = [judge_plainly(text, dict(message.properties)) for message in messages()]
        assert mask.tolist() == expected, text
    answers = LocalFilter(Local(lambda message: np.bool_(message.body == b"x")))
    assert answers.mask(block.records, block.sizes, messages).all()
    failures = {
        "ZeroDivisionError": lambda message: message.queue_offset / 0 > 1,
        "StopIteration": lambda _message: next(iter(())),
    }
    for name, failing in failures.items():
        with pytest.raises(FilterFailed, match=f"raised {name} at queue offset 0"):
            LocalFilter(Local(failing)).mask(block.records, block.sizes, messages)


@pytest.mark.parametrize("wrong", [None, "a = 1", 7])
def test_a_value_that_is_no_filter_is_refused(wrong):
    with pytest.raises(FilterIllegal, match="a function of a message"):
        Local(wrong)


async def test_what_a_filter_leaves_out_takes_no_room_of_what_comes_next(cluster, topic):
    count, last = 60_000, 10
    async with Producer(cluster.name_servers) as producer:
        for begin in range(0, count, 5_000):
            numbers = range(begin, begin + 5_000)
            await producer.send_batch([Message(topic, b"%d" % n + b" " * 500) for n in numbers])
    # Each wait for the end of a hold would take half a minute, and there would be several.
    settings = PullSettings(hold_s=30.0)
    found = []
    async with (
        PullConsumer(
            cluster.name_servers,
            group=f"group-of-{topic}",
            subscriptions={topic: Local(lambda message: int(bytes(message.body)) >= count - last)},
            start="earliest",
            settings=settings,
        ) as consumer,
        asyncio.timeout(45),
    ):
        while len(found) < last:
            found += [int(bytes(message.body)) for message in await consumer.poll(timeout_s=1.0)]
    assert sorted(found) == list(range(count - last, count))
