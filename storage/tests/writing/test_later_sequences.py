import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_storage.writing.property_check import (
    _LATER_SEQUENCE,
    _RARE_LETTER,
    says_later_sequence,
)


@pytest.mark.parametrize("before", [*range(60), 500])
def test_a_later_sequence_is_found_wherever_it_stands(before):
    encoded = b"x" * before + _LATER_SEQUENCE

    assert says_later_sequence(encoded)
    assert says_later_sequence(encoded + b"x" * 100)
    assert not says_later_sequence(encoded[:-1] + b"x" * 100)


@given(st.lists(st.sampled_from([b"x", b"\x02", b"__PSEQ#\x01", _LATER_SEQUENCE[:4]])))
def test_a_later_sequence_is_found_as_by_a_plain_search(parts):
    encoded = b"".join(parts)

    assert says_later_sequence(encoded) == (_LATER_SEQUENCE in encoded)
    assert _RARE_LETTER in _LATER_SEQUENCE
