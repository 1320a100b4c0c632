"""Results of a row that are made when they are looked at: as good as a list of them."""

import numpy as np
import pytest

from ariane_record.single.message_id import IdRun, UniqueIds
from ariane_sdk import SendResult
from ariane_sdk.message import AcknowledgedLevel
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.send_results import SendResults, StoredMessages

QUEUE = MessageQueue("orders", "broker-a", 3)
IDS = [f"{number:032X}" for number in range(5)]


def stored(count):
    offsets = np.array([100, 110, 130, 160, 200], np.int64)
    ids = UniqueIds([IdRun("0" * 28, 0, count)])
    how = AcknowledgedLevel.FLUSHED, 5, "127.0.0.1:1", False
    return StoredMessages(QUEUE, 70, offsets[:count], ids, how)


@pytest.fixture
def results():
    return SendResults([stored(5)])


def test_results_of_a_row_equal_a_list(results):
    expected = [
        SendResult(QUEUE, 70 + n, offset, IDS[n], AcknowledgedLevel.FLUSHED, 5, "127.0.0.1:1")
        for n, offset in enumerate([100, 110, 130, 160, 200])
    ]
    assert results == expected
    assert list(results) == expected
    assert [results[n] for n in range(-5, 5)] == [*expected, *expected]
    assert results[1:4] == expected[1:4]
    assert results[1:4][::-2] == expected[1:4][::-2]
    assert results[::-1][0] == expected[-1]
    assert results[5:] == []
    assert results != expected[1:]
    assert results.index(expected[2]) == 2
    assert repr(results) == repr(expected)
    assert type(results[0].queue_offset) is type(results[0].commit_log_offset) is int


def test_there_is_none_beyond_the_last(results):
    with pytest.raises(IndexError):
        results[5]
    with pytest.raises(IndexError):
        results[1:4][3]


def test_results_of_several_rows_equal_a_list(results):
    joined = SendResults([stored(5), stored(1), stored(3)])
    expected = [*results, results[0], *results[:3]]
    assert joined == expected
    assert joined == SendResults([stored(5), stored(1), stored(3)])
    assert joined != expected[1:]
    assert len(joined) == len(expected) == 9
    assert [joined[n] for n in range(-9, 9)] == [*expected, *expected]
    assert joined[3:7] == expected[3:7]
    assert joined[::-2] == expected[::-2]
    assert joined.index(expected[7]) == 1  # An equal one comes before.
    assert repr(joined) == repr(expected)
    with pytest.raises(IndexError):
        joined[9]
