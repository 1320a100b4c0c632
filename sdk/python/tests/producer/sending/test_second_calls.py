"""When a second call beside the first is worth its price."""

import pytest

from ariane_sdk.producer.sending.sender import is_worth_a_call


@pytest.mark.parametrize(
    ("row_count", "message_count"),
    [(1, 16), (2, 32), (3, 45), (12, 36), (24, 24), (40, 40)],
)
def test_a_second_call_has_long_rows_or_many_messages_and_rows(row_count, message_count):
    assert is_worth_a_call(message_count, row_count)
    if message_count > row_count:
        assert not is_worth_a_call(message_count - 1, row_count)


def test_messages_alone_in_their_rows_are_worth_a_call_from_24_on():
    assert next(count for count in range(30) if is_worth_a_call(count, count)) == 24


def test_nothing_is_worth_no_call():
    assert not is_worth_a_call(0, 0)
