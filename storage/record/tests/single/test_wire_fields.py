"""Fields of encoded messages: numbers, lengths, and bytes that are no message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.errors import WireCorrupted
from ariane_record.single.wire_fields import (
    fields_of,
    length_prefix,
    length_tag,
    number_tag,
    varint,
)

FIELDS = st.lists(
    st.tuples(st.integers(1, 2000), st.one_of(st.binary(max_size=200), st.integers(0, 1 << 63)))
)


def encoded(fields):
    return b"".join(
        varint(number_tag(number)) + varint(value)
        if isinstance(value, int)
        else length_prefix(length_tag(number), len(value)) + value
        for number, value in fields
    )


@given(st.integers(0, 1 << 63))
def test_lengths_are_varints(number):
    octets = varint(number)
    assert sum((octet & 0x7F) << 7 * place for place, octet in enumerate(octets)) == number
    assert [octet >> 7 for octet in octets] == [1] * (len(octets) - 1) + [0]


@given(FIELDS)
def test_fields_come_as_they_were_written(fields):
    message = encoded(fields)
    found = list(fields_of(memoryview(message)))
    assert b"".join(field.whole for field in found) == message
    assert [field.tag >> 3 for field in found] == [number for number, _ in fields]
    for field, (_, value) in zip(found, fields, strict=True):
        assert field.value == (varint(value) if isinstance(value, int) else value)
        assert field.value.obj is message


@given(FIELDS.filter(len), st.data())
def test_a_field_that_is_cut_is_refused(fields, data):
    whole = encoded(fields[:-1])
    message = encoded(fields)
    cut = data.draw(st.integers(len(whole) + 1, len(message) - 1))
    with pytest.raises(WireCorrupted):
        list(fields_of(memoryview(message[:cut])))


@pytest.mark.parametrize("message", [b"\x0b", b"\x0c", b"\x0f", b"\x80" * 11, b"\x0d\0\0\0"])
def test_what_is_no_field_is_refused(message):
    with pytest.raises(WireCorrupted):
        list(fields_of(memoryview(message)))
