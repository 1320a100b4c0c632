"""Answers of receiving are taken apart without copies of their records."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.v1.receive_service_pb2 import ReceivedRecords, ReceiveRecordsResponse
from ariane_sdk.consumer.receiving import receive_wire
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


@given(st.lists(queues, max_size=4))
def test_large_answers_are_cut_as_small_ones_are_decoded(many):
    answer = ReceiveRecordsResponse(queues=many).SerializeToString()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receive_wire, "COPIED_BYTES_MAX", -1)
        cut = receive_answer(answer)
        if answer:
            with pytest.raises(DecodeError):
                receive_answer(answer[:-1])
    assert cut == receive_answer(answer)
