"""Answers to pulls, taken apart by hand: as Protocol Buffers would, and never otherwise."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.v1.pull_service_pb2 import (
    BodyRun,
    PullRecordsResponse,
    QueueRecords,
    StreamPullsResponse,
)
from ariane_sdk.consumer.pulling.pull_wire import pull_answer

QUEUES = st.builds(
    QueueRecords,
    topic=st.text(max_size=5),
    queue_id=st.integers(-(1 << 31), (1 << 31) - 1),
    next_queue_offset=st.integers(-1, (1 << 63) - 1),
    record_sizes=st.binary(max_size=12),
    body_runs=st.lists(st.builds(BodyRun, message_count=st.integers(0, 9)), max_size=3),
    bodies=st.binary(max_size=300),
    records=st.binary(max_size=300),
)
ANSWERS = st.lists(QUEUES, max_size=4)


def encoded(queues):
    return StreamPullsResponse(pulled=PullRecordsResponse(queues=queues)).SerializeToString()


def whole(pulled):
    """A queue put together again."""
    queue = QueueRecords()
    queue.CopyFrom(pulled.head)
    assert not queue.records
    assert not queue.bodies
    queue.records = bytes(pulled.records)
    queue.bodies = bytes(pulled.bodies)
    return queue


@given(ANSWERS)
def test_an_answer_is_what_was_said(queues):
    assert list(map(whole, pull_answer(encoded(queues)).queues)) == queues


@given(QUEUES)
def test_fields_may_come_in_any_order(queue):
    records = QueueRecords(records=queue.records).SerializeToString()
    rest = QueueRecords()
    rest.CopyFrom(queue)
    rest.ClearField("records")
    turned = records + rest.SerializeToString()
    answer = b"\x0a" + bytes([len(turned) & 0x7F | 0x80, len(turned) >> 7]) + turned
    outer = b"\x0a" + bytes([len(answer) & 0x7F | 0x80, len(answer) >> 7]) + answer
    assert list(map(whole, pull_answer(outer).queues)) == [queue]


@given(ANSWERS)
def test_records_and_bodies_are_not_copied(queues):
    answer = encoded(queues)
    assert all(pulled.records.obj is answer for pulled in pull_answer(answer).queues)
    assert all(pulled.bodies.obj is answer for pulled in pull_answer(answer).queues)


@given(ANSWERS, st.binary(min_size=1, max_size=8))
def test_fields_of_later_versions_are_passed_over(queues, value):
    unknown = b"\xa2\x06" + bytes([len(value)]) + value + b"\xa0\x06\x05\xa5\x06" + bytes(4)
    assert list(map(whole, pull_answer(encoded(queues) + unknown).queues)) == queues


@given(ANSWERS.filter(any), st.data())
def test_half_an_answer_is_refused(queues, data):
    answer = encoded(queues)
    with pytest.raises(DecodeError):
        pull_answer(answer[: data.draw(st.integers(1, len(answer) - 1))])


@given(st.binary(max_size=60))
def test_anything_is_an_answer_or_refused(octets):
    try:
        found = pull_answer(octets)
    except DecodeError:
        return
    for pulled in found.queues:
        assert isinstance(pulled.head, QueueRecords)


@given(ANSWERS, st.booleans())
def test_it_says_whether_more_follow(queues, more_follow):
    answer = StreamPullsResponse(
        pulled=PullRecordsResponse(queues=queues), more_follow=more_follow
    ).SerializeToString()
    assert pull_answer(answer).more_follow is more_follow
    assert len(pull_answer(answer).queues) == len(queues)
