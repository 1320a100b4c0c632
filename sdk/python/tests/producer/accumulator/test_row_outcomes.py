"""Rows: what was withdrawn was never there, every sender gets its result, and nothing is kept."""

import asyncio
import weakref
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.v1.send_service_pb2 import AppendRecordsRequest
from ariane_record import ProducerSequence
from ariane_record.encoding.message_properties import TopicProperties
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk import Message
from ariane_sdk.errors import CallError, SendError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.sending.append_calls import AppendCalls
from ariane_sdk.producer.sending.sender import AppendCall
from ariane_sdk.producer.sending.table_wire import keep_encoded, settle_rows
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.runtime.clock import SystemClock
from ariane_testkit.append_rows import RowResult, call_of, table_result_of

NOW_MS = 1_700_000_000_000
ADDRESS = "127.0.0.1:10911"

sends = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.binary(max_size=300),
        st.sampled_from(["", "paid", "größe"]),
        st.sampled_from([(), ("k",), ("k", "other")]),
    ),
    min_size=1,
    max_size=60,
)


class Side:
    """A call with the rows of some messages, as a sender would make it."""

    def __init__(self, messages, *, sequenced=True):
        ids = UniqueIdGenerator(lambda: NOW_MS, ip="10.1.2.3", pid=7, origin=0)
        self.rows, self.futures = {}, []
        self.calls = SimpleNamespace(
            unsettled=Unsettled(
                Random(1), clock=SystemClock(), timeout_s=60.0, size_bytes_max=1 << 20
            ),
            _unique_ids=ids,
        )
        loop = asyncio.get_running_loop()
        for number, (topic_number, body, tag, keys) in enumerate(messages):
            queue = MessageQueue(f"topic-{topic_number}", "broker-a", topic_number % 3)
            topic = TopicProperties(queue.topic, id_bytes=ids.digit_count, sequenced=sequenced)
            if queue not in self.rows:
                self.rows[queue] = Row(
                    queue, topic, choose_other=lambda _, queue=queue: queue, sequenced=sequenced
                )
            self.futures.append(loop.create_future())
            properties = topic.encode(tag=tag, keys=keys)
            self.rows[queue].add(body, properties, NOW_MS + number, self.futures[-1])
        self.call = None

    def request(self):
        """The request of a call with all of them."""
        rows = [row for row in self.rows.values() if row.messages]
        for row in rows:
            row.open = False
        self.call = AppendCall("broker-a", lambda _: None, rows, set(), 0, address=ADDRESS)
        return AppendRecordsRequest.FromString(AppendCalls._encoded(self.calls, self.call))


def settle(side, result):
    return settle_rows(side.call, result)


def results_for(request):
    results = []
    for number, batch in enumerate(request.rows):
        result = RowResult(
            first_queue_offset=number * 1000,
            first_commit_log_offset=number << 33,
            record_count=len(batch.key_counts),
            acknowledged_level=1,
        )
        result.store_time.FromMilliseconds(NOW_MS + 5)
        results.append(result)
    return results


@given(messages=sends, taken=st.sets(st.integers(0, 59)), sequenced=st.booleans())
def test_withdrawn_messages_leave_no_trace_in_the_request(messages, taken, sequenced):
    async def check():
        side = Side(messages, sequenced=sequenced)
        gone = [number for number in sorted(taken) if number < len(messages)]
        if len(gone) == len(messages):
            gone.pop()
        for number in gone:
            row = side.rows[queue_of(messages[number])]
            before = row.size_bytes, row.wire_bytes
            withdrawn = row.withdraw(side.futures[number])
            assert withdrawn == before[0] - row.size_bytes > 0
            assert row.wire_bytes < before[1]
            assert row.withdraw(side.futures[number]) == 0
        left = [number for number in range(len(messages)) if number not in gone]
        expected = Side([messages[number] for number in left], sequenced=sequenced)
        for row in side.rows.values():
            same = expected.rows.get(row.queue)
            assert row.size_bytes == (0 if same is None else same.size_bytes)
        # All but the times at which they were made.
        found, wanted = side.request().table, expected.request().table
        for name in ("record_counts", "record_sizes", "tag_codes", "key_counts", "key_hashes"):
            if set(zip(found.topics, found.queue_ids, strict=False)) == set(
                zip(wanted.topics, wanted.queue_ids, strict=False)
            ) and list(found.topics) == list(wanted.topics):
                assert getattr(found, name) == getattr(wanted, name)
        for number in left:
            row = side.rows[queue_of(messages[number])]
            assert row.withdraw(side.futures[number]) == 0

    asyncio.run(check())


def queue_of(message):
    return MessageQueue(f"topic-{message[0]}", "broker-a", message[0] % 3)


@given(
    messages=sends,
    sequenced=st.booleans(),
    unlucky=st.integers(0, 5),
    repeated=st.integers(0, 5),
    resized=st.booleans(),
)
def test_everybody_is_told_where_the_message_is_or_keeps_it(
    messages, sequenced, unlucky, repeated, resized
):
    async def check():
        side = Side(messages, sequenced=sequenced)
        request = call_of(side.request())
        results = results_for(request)
        rows = list(side.call.rows)
        refused = rows[unlucky] if unlucky < len(rows) else None
        if refused is not None:
            results[unlucky] = RowResult(error=Status(code=14))
        if repeated < len(rows) and repeated != unlucky:
            results[repeated].duplicate = True
        side.futures[0].cancel()
        waiting = [asyncio.create_task(row.wait_settled()) for row in rows if row is not refused]
        await asyncio.sleep(0)

        answer = table_result_of(results)
        if resized:
            answer.commit_log_offsets = np.arange(7, 7 + len(messages)).tobytes()
        failed = settle(side, answer)
        assert [row for row, _ in failed] == [refused] * (refused is not None)
        await asyncio.wait_for(asyncio.gather(*waiting), 60)
        seen = dict.fromkeys(rows, 0)
        for number, (message, future) in enumerate(zip(messages, side.futures, strict=True)):
            row = side.rows[queue_of(message)]
            place, seen[row] = seen[row], seen[row] + 1
            if row is refused or number == 0:
                assert not future.done() or future.cancelled()
                continue
            result, batch = future.result(), request.rows[rows.index(row)]
            assert result.message_queue == row.queue
            assert result.queue_offset == 1000 * rows.index(row) + place
            start = sum(np_int32s(batch.record_sizes)[:place])
            before = sum(len(each.key_counts) for each in request.rows[: rows.index(row)])
            log_offset = 7 + before + place if resized else (rows.index(row) << 33) + start
            assert result.commit_log_offset == log_offset
            assert result.duplicate is (rows.index(row) == repeated)
            assert result.acknowledged_level == 1
            assert result.broker_address == ADDRESS
            assert result.unique_id.encode() in batch.records[start:]
        if refused is not None:
            # It is sent again as it was.
            sent = request.rows[unlucky]
            keep_encoded(side.call)
            side.rows = {refused.queue: refused}
            (again,) = call_of(side.request()).rows
            assert again == sent
            result = results_for(SimpleNamespace(rows=[again]))
            settle(side, table_result_of(result))
            waiting_for = zip(messages, side.futures, strict=True)
            assert all(
                future.done() for each, future in waiting_for if queue_of(each) == refused.queue
            )

    asyncio.run(check())


def np_int32s(column):
    return memoryview(column).cast("i").tolist()


@pytest.mark.parametrize("answered", [0, 1, 3, 5])
async def test_an_answer_to_another_table_tells_nobody_anything(answered):
    side = Side([(number % 4, b"%d" % number, "", ()) for number in range(20)])
    results = results_for(call_of(side.request()))
    result = table_result_of(2 * results)
    result.first_queue_offsets = result.first_queue_offsets[: 8 * answered]
    with pytest.raises(ValueError, match="in the answer to a table of 4 rows"):
        settle(side, result)
    assert not any(future.done() for future in side.futures)


@pytest.mark.parametrize("ends", ["stored", "stored as sent again", "failed"])
async def test_settled_rows_keep_no_message(ends):
    """The info of a topic that has gone quiet still knows its last row."""
    side = Side([(number % 4, b"%d" % number, "", ()) for number in range(20)])
    results = results_for(call_of(side.request()))
    rows = list(side.call.rows)
    if ends == "stored as sent again":
        keep_encoded(side.call)
        tables_of = [weakref.ref(row.table.sizes) for row in rows]
        side.request()
    if ends == "failed":
        for row in rows:
            row.fail(CallError("gone"))
    else:
        settle(side, table_result_of(results))
    side.call = None
    assert not any(row.messages or row.table for row in rows)
    if ends == "stored as sent again":
        assert not any(block() for block in tables_of)
    assert all(
        isinstance(each.exception(), SendError) == (ends == "failed") for each in side.futures
    )


async def test_a_row_that_is_taken_apart_ends_with_its_messages():
    topic = TopicProperties("orders", id_bytes=32, sequenced=True)
    queue = MessageQueue("orders", "broker-a", 0)
    row = Row(queue, topic, choose_other=None, sequenced=True, grouped=True)
    row.sequence = ProducerSequence(1, 0, 0)
    future = asyncio.get_running_loop().create_future()
    messages = [Message("orders", b"%d" % number, message_group="g") for number in range(2)]
    for message, waiting in zip(messages, (future, None), strict=True):
        properties = topic.encode(message_group="g")
        row.add(message.body, properties, NOW_MS, waiting, 0, message)
    ended = asyncio.create_task(row.wait_settled())
    (first, its_future), (second, other_future) = row.take_apart()
    assert (first, second, its_future) == (*messages, future)
    assert not row.open
    future.cancel()
    await asyncio.sleep(0)
    assert not ended.done()
    other_future.set_exception(CallError("refused"))
    await asyncio.wait_for(ended, 60)
