"""A bundle says and is told what single batches would: on the wire, when it is settled, apart."""

import asyncio
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.v1.send_service_pb2 import AppendRecordsRequest, AppendResult
from ariane_record.encoding.plain_topic import PlainTopic
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle, BundleSettings
from ariane_sdk.producer.batches.singles_batch import SinglesBatch, encode_together
from ariane_sdk.producer.sending.append_wire import request_parts
from ariane_sdk.producer.sending.queue_sequences import QueueSequences

NOW_MS = 1_700_000_000_000
PRODUCER_ID = (1 << 62) + 7
ADDRESS = "127.0.0.1:10911"

sends = st.lists(
    st.tuples(st.integers(0, 5), st.binary(max_size=300), st.sampled_from(["", "paid", "größe"])),
    min_size=1,
    max_size=60,
)


def new_ids():
    return UniqueIdGenerator(lambda: NOW_MS, ip="10.1.2.3", pid=7, origin=0)


def always(queue):
    """Chooses no other."""
    return lambda _: queue


class Side:
    """The same messages in a bundle, and in batches of their own."""

    def __init__(self, messages, *, sequenced=True):
        self.sequenced = sequenced
        self.bundle = Bundle(BundleSettings(new_ids(), sequenced=sequenced))
        self.bundle.deadline_s = 42.5
        self.batches = {}
        self.rows = {}
        self.futures, self.own_futures = [], []
        ids = new_ids()
        loop = asyncio.get_running_loop()
        for number, (topic_number, body, tag) in enumerate(messages):
            queue = MessageQueue(f"topic-{topic_number}", "broker-a", topic_number % 3)
            topic = PlainTopic(queue.topic, id_bytes=ids.digit_count)
            if queue not in self.rows:
                self.rows[queue] = self.bundle.join(queue, topic, always(queue))
                self.batches[queue] = SinglesBatch(
                    queue,
                    choose_other=always(queue),
                    body_bytes_max=1000,
                    sequenced=sequenced,
                    plain_topic=topic,
                    unique_ids=ids,
                    cut_count=1000,
                )
            shape = topic.shape_of(tag)
            self.futures.append(loop.create_future())
            self.own_futures.append(loop.create_future())
            born_ms = NOW_MS + number
            self.bundle.add(self.rows[queue], body, shape, born_ms, self.futures[-1])
            self.batches[queue].add_plain(body, shape, born_ms, self.own_futures[-1])

    @property
    def sequences(self):
        return QueueSequences(PRODUCER_ID) if self.sequenced else None

    def bundle_request(self):
        return request_of(self.bundle.to_wire("group", self.sequences))

    def batches_request(self):
        sequences, batches = self.sequences, [each for each in self.batches.values() if each.count]
        for batch in batches:
            if sequences is not None:
                batch.sequence = sequences.take(batch.queue, batch.count)
        encode_together(batches)
        return request_of(request_parts("group", [batch.to_wire() for batch in batches]))


def request_of(parts):
    return AppendRecordsRequest.FromString(b"".join(parts))


def results_for(request):
    results = []
    for number, batch in enumerate(request.batches):
        result = AppendResult(
            first_queue_offset=number * 1000,
            first_commit_log_offset=number << 33,
            record_count=len(batch.key_counts),
            acknowledged_level=1,
        )
        result.store_time.FromMilliseconds(NOW_MS + 5)
        results.append(result)
    return results


@given(messages=sends, sequenced=st.booleans())
def test_on_the_wire_it_is_what_its_batches_are(tables, messages, sequenced):
    async def check():
        side = Side(messages, sequenced=sequenced)
        assert side.bundle.size_bytes == sum(each.size_bytes for each in side.batches.values())
        request = side.bundle_request()
        assert request.HasField("table")
        assert tables.batches_of(request) == side.batches_request()
        assert not side.bundle.open

    asyncio.run(check())


@given(messages=sends, taken=st.sets(st.integers(0, 59)), sequenced=st.booleans())
def test_what_is_withdrawn_was_never_there(tables, messages, taken, sequenced):
    async def check():
        side = Side(messages, sequenced=sequenced)
        gone = [number for number in sorted(taken) if number < len(messages)]
        if len(gone) == len(messages):
            gone.pop()
        for number in gone:
            before = side.bundle.size_bytes
            assert side.bundle.withdraw(side.futures[number]) == before - side.bundle.size_bytes > 0
            assert side.bundle.withdraw(side.futures[number]) == 0
            [(batch, future)] = [
                (each, side.own_futures[number])
                for each in side.batches.values()
                if side.own_futures[number] in each._futures
            ]
            batch.withdraw(future)
        assert tables.batches_of(side.bundle_request()) == side.batches_request()
        left = next(number for number in range(len(messages)) if number not in gone)
        assert side.bundle.withdraw(side.futures[left]) == 0

    asyncio.run(check())


@given(messages=sends)
def test_it_tells_everybody_what_batches_would(tables, messages):
    async def check():
        side = Side(messages)
        results = results_for(tables.batches_of(side.bundle_request()))
        side.batches_request()
        for batch, result in zip(side.batches.values(), results, strict=True):
            batch.settle(result, ADDRESS)
        waiting = asyncio.create_task(side.bundle.wait_settled())
        await asyncio.sleep(0)
        side.futures[0].cancel()

        side.bundle.settle(tables.result_of(results), ADDRESS)
        for future, own in zip(side.futures[1:], side.own_futures[1:], strict=True):
            assert future.result() == own.result()
        await asyncio.wait_for(waiting, 60)
        await side.bundle.wait_settled()

    asyncio.run(check())


@pytest.mark.parametrize("sequenced", [False, True])
async def test_what_is_not_the_same_for_all_is_for_single_batches(tables, sequenced):
    side = Side([(number % 4, b"%d" % number, "") for number in range(20)], sequenced=sequenced)
    request = tables.batches_of(side.bundle_request())
    waiting = asyncio.create_task(side.bundle.wait_settled())
    await asyncio.sleep(0)
    batches = side.bundle.take_apart()
    assert all(batch.in_flight and not batch.open for batch in batches)
    assert {batch.deadline_s for batch in batches} == {42.5}
    assert request_of(request_parts("group", [batch.to_wire() for batch in batches])) == request
    results = results_for(request)
    side.batches_request()
    for batch, own, result in zip(batches, side.batches.values(), results, strict=True):
        assert not waiting.done()
        batch.settle(result, ADDRESS)
        own.settle(result, ADDRESS)
        await asyncio.sleep(0)
    await asyncio.wait_for(waiting, 60)
    for future, own in zip(side.futures, side.own_futures, strict=True):
        assert future.result() == own.result()


@pytest.mark.parametrize("answered", [0, 1, 3, 5])
async def test_an_answer_to_another_table_tells_nobody_anything(tables, answered):
    side = Side([(number % 4, b"%d" % number, "") for number in range(20)])
    results = results_for(tables.batches_of(side.bundle_request()))
    result = tables.result_of(2 * results)
    result.first_queue_offsets = result.first_queue_offsets[: 8 * answered]
    with pytest.raises(ValueError, match="in the answer to a table of 4 batches"):
        side.bundle.settle(result, ADDRESS)
    assert not any(future.done() for future in side.futures)
    assert len(side.bundle.take_apart()) == 4


@pytest.mark.parametrize("apart", [False, True])
async def test_nothing_is_kept_of_what_was_sent(tables, apart):
    """The lane of a topic that has gone quiet still knows its last bundle."""
    side = Side([(number % 4, b"%d" % number, "") for number in range(20)])
    results = results_for(tables.batches_of(side.bundle_request()))
    blocks = weakref.ref(side.bundle._sent.blocks.sizes)
    assert blocks() is not None
    if apart:
        for batch, result in zip(side.bundle.take_apart(), results, strict=True):
            batch.settle(result, ADDRESS)
    else:
        side.bundle.settle(tables.result_of(results), ADDRESS)
    assert blocks() is None
    assert not any(side.bundle._columns())
    await asyncio.wait_for(side.bundle.wait_settled(), 60)


async def test_nothing_is_kept_of_what_goes_on_before_it_was_sent():
    side = Side([(number % 4, b"%d" % number, "") for number in range(20)])
    batches = side.bundle.take_apart()
    assert [batch.count for batch in batches] == [5] * 4
    assert not any(side.bundle._columns())
    assert side.bundle.take_apart() is batches


@given(messages=sends, sequenced=st.booleans())
def test_apart_before_it_leaves_it_is_its_batches(messages, sequenced):
    async def check():
        side = Side(messages, sequenced=sequenced)
        batches = side.bundle.take_apart()
        assert not side.bundle.open
        assert not any(batch.in_flight or not batch.movable for batch in batches)
        assert side.bundle.size_bytes == sum(batch.size_bytes for batch in batches)
        expected = side.batches_request()
        side.batches = {batch.queue: batch for batch in batches}
        assert side.batches_request() == expected

    asyncio.run(check())


async def test_of_an_empty_one_nothing_is_left():
    side = Side([(0, b"one", ""), (1, b"two", "")])
    for future in side.futures:
        assert side.bundle.withdraw(future)
    assert side.bundle.count == 0
    assert side.bundle.take_apart() == []
    await asyncio.wait_for(side.bundle.wait_settled(), 60)
