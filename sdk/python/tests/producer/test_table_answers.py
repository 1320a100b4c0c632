"""Answers that no broker gives to a table: nobody is told what is not so, and sends go on."""

import asyncio
from itertools import cycle

import numpy as np
import pytest

from ariane_sdk import Message, Producer, errors

TOPICS = [f"topic-{number}" for number in range(80)]
SENDERS = 640


async def sent_until(producer, over):
    """What became of what very many send, each message by message, until it is over."""
    sends, topics = [], cycle(TOPICS)
    for topic in TOPICS:
        await producer.route(topic)

    async def send_on():
        while not over():
            sends.append(producer.send_nowait(Message(next(topics), b"<%d>" % len(sends))))
            await asyncio.wait(sends[-1:])

    async with asyncio.timeout(60):
        await asyncio.gather(*(send_on() for _ in range(SENDERS)))
    return await asyncio.gather(*sends, return_exceptions=True)


def cut_offsets(table):
    table.first_queue_offsets = table.first_queue_offsets[:-1]


def one_missing(table):
    table.first_commit_log_offsets = table.first_commit_log_offsets[8:]


def one_too_many(table):
    table.first_queue_offsets += bytes(8)
    table.first_commit_log_offsets += bytes(8)


def nothing(table):
    table.Clear()


def no_level_of_ours(table):
    table.acknowledged_level = 77


STRANGE = [cut_offsets, one_missing, one_too_many, nothing, no_level_of_ours]


@pytest.mark.parametrize("change", STRANGE)
async def test_a_table_result_that_cannot_be(many, change):
    broker, changed = many.brokers["broker-a"], []

    def twist(answer):
        if answer.HasField("table_result") and not changed:
            changed.append(True)
            change(answer.table_result)

    broker.twist = twist
    async with Producer(many.name_servers) as producer:
        outcomes = await sent_until(producer, lambda: changed)
        assert (await producer.send(Message(TOPICS[0], b"one more"))).unique_id
        assert producer._unsettled.size_bytes == 0
        assert not producer._sending.unsettled
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    assert failed
    assert all(isinstance(each, errors.SendError) and each.outcome_unknown for each in failed)
    assert sorted(broker.bodies) == sorted(
        [b"one more", *(b"<%d>" % number for number in range(len(outcomes)))]
    )


async def test_results_of_batches_for_what_was_a_table(many):
    broker, changed = many.brokers["broker-a"], []

    def twist(answer):
        if not changed:
            changed.append(True)
            answer.ClearField("table_result")
            answer.results.add()

    broker.twist = twist
    async with Producer(many.name_servers) as producer:
        with pytest.raises(errors.SendError) as raised:
            await producer.send(Message("orders", b"one"))
        assert raised.value.outcome_unknown
        assert (await producer.send(Message("orders", b"two"))).unique_id
        assert not producer._sending.unsettled


@pytest.mark.parametrize("count", [1, 3])
async def test_offsets_of_records_that_were_stored_in_other_sizes(many, count):
    broker = many.brokers["broker-a"]

    def twist(answer):
        offsets = [7000 - number for number in range(count)]
        answer.table_result.commit_log_offsets = np.array(offsets, "<i8").tobytes()

    broker.twist = twist
    async with Producer(many.name_servers) as producer:
        sends = [producer.send(Message("orders", b"%d" % n)) for n in range(count)]
        results = await asyncio.gather(*sends)
        assert [each.commit_log_offset for each in results] == [7000, 6999, 6998][:count]
        broker.twist = cut_record_offsets
        with pytest.raises(errors.SendError) as raised:
            await producer.send(Message("orders", b"cut"))
        assert raised.value.outcome_unknown


def cut_record_offsets(answer):
    answer.table_result.commit_log_offsets = bytes(16)
