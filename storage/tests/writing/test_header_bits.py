import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.layout import HEADER, HEADER_BYTES
from ariane_storage.writing.header_bits import HeaderBits
from ariane_storage.writing.property_check import (
    _LATER_SEQUENCE,
    _RARE_LETTER,
    says_later_sequence,
)

UNSIGNED = [name for name in HEADER.names if HEADER[name].kind != "V"]


@given(st.integers(1, 300), st.integers(0, 2**32 - 1), st.booleans())
def test_bits_are_those_of_all_headers_and_of_any(count, seed, alike):
    octets = np.random.default_rng(seed).integers(0, 256, (count, HEADER_BYTES), np.uint8)
    if alike:
        octets[:] = octets[0]
        octets[-1, -1] ^= 1
    headers = octets.reshape(-1).view(HEADER)

    bits = HeaderBits.of(headers)

    for name in UNSIGNED:
        values = headers[name].astype(headers[name].dtype.newbyteorder("="))
        assert bits.in_all[name] == np.bitwise_and.reduce(values), name
        assert bits.in_any[name] == np.bitwise_or.reduce(values), name


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
