import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_ordering import BrokerQueue, group_position, java_string_hash, queues_in_order

INT32_MIN = -(1 << 31)


def plain_hash(text):
    """``String.hashCode`` as its documentation says it."""
    octets = text.encode("utf-16-le", "surrogatepass")
    word = 0
    for low, high in zip(octets[::2], octets[1::2], strict=True):
        word = (31 * word + (high << 8 | low)) % (1 << 32)
    return word - (1 << 32) if word >= 1 << 31 else word


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("中文标签", 622041809),
        ("polygenelubricants", INT32_MIN),
        ("😀", 1772899),
    ],
)
def test_hash_is_javas(text, expected):
    assert java_string_hash(text) == expected


@given(st.text(st.characters(), max_size=300))
def test_hash_equals_its_definition(text):
    assert java_string_hash(text) == plain_hash(text)


def test_a_group_has_a_place_among_the_queues_whatever_its_hash():
    assert group_position("polygenelubricants", 7) == INT32_MIN % 7
    assert {group_position(f"table-{number}", 3) for number in range(100)} == {0, 1, 2}


def test_queues_are_in_order_of_brokers_then_numbers_however_they_are_said():
    expected = (
        *(BrokerQueue("broker-a", queue_id) for queue_id in range(11)),
        *(BrokerQueue("broker-b", queue_id) for queue_id in range(2)),
    )
    assert queues_in_order("broker-a:11;broker-b:2") == expected
    assert queues_in_order(" broker-b:2; broker-a:11;broker-b:1") == expected


ENTRIES = ["", ":3", "broker-b", "broker-b:", "broker-b:-1", "broker-b:³", "broker-b:65536"]


@pytest.mark.parametrize("entry", [*ENTRIES, f"broker-b:{'9' * 5000}"])
def test_what_is_no_entry_of_a_queue_order_is_passed_over(entry):
    assert queues_in_order(f"broker-a:1;{entry}") == (BrokerQueue("broker-a", 0),)
