"""Answers of receiving are taken apart without copies of their records."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.v1.receive_service_pb2 import ReceivedRecords, ReceiveRecordsResponse
from ariane_sdk.consumer.receiving.receive_wire import receive_answer

queues = st.builds(
    ReceivedRecords,
    topic=st.text(max_size=8),
    queue_id=st.integers(0, 99),
    receipt=st.binary(max_size=40),
    attempts=st.binary(max_size=8),
    invisible_until_ms=st.integers(0, 1 << 50),
    record_sizes=st.binary(max_size=300),
    records=st.binary(max_size=300),
)


@given(st.lists(queues, max_size=4))
def test_all_is_as_the_generated_class_reads_it(many):
    answer = ReceiveRecordsResponse(queues=many).SerializeToString()
    found = receive_answer(answer)
    assert [bytes(queue.records) for queue in found] == [queue.records for queue in many]
    for queue, told in zip(many, found, strict=True):
        queue.ClearField("records")
        assert told.head == queue


def test_bytes_that_are_no_answer_are_refused():
    answer = ReceiveRecordsResponse(queues=[ReceivedRecords(topic="jobs")]).SerializeToString()
    with pytest.raises(DecodeError):
        receive_answer(answer[:-1])
