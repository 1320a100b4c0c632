import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.errors import IllegalProperty
from ariane_record.single.properties import decode_properties, encode_properties, property_finder
from ariane_record.testing.strategies import property_maps

# Few letters, so that separators, empty parts and repeated names meet.
ROUGH = st.text("ab\x01\x02", max_size=24).map(str.encode)


def plain_decode(encoded):
    """The reader of the field, pair after pair."""
    properties = {}
    for pair in encoded.decode().split("\x02"):
        split = pair.find("\x01")
        if 0 < split < len(pair) - 1:
            properties[pair[:split]] = pair[split + 1 :]
    return properties


@given(property_maps())
def test_round_trip_keeps_order(properties):
    decoded = decode_properties(encode_properties(properties))

    assert list(decoded.items()) == list(properties.items())


def test_bytes_are_those_of_the_format():
    assert encode_properties({"KEYS": "k1", "TAGS": "ü"}) == b"KEYS\x01k1\x02TAGS\x01\xc3\xbc\x02"
    assert encode_properties({}) == b""


@pytest.mark.parametrize(
    "properties",
    [
        {"": "value"},
        {"good": "one", "": "value"},
        {"name": ""},
        {"name": "", "good": "one"},
        {"na\x01me": "value"},
        {"na\x02me": "value"},
        {"name": "val\x01ue"},
        {"name": "val\x02ue"},
        {"name": "\x02"},
        {"\x01": "value"},
        {"name": "\ud800"},
    ],
)
def test_what_the_format_cannot_carry_is_refused(properties):
    with pytest.raises(IllegalProperty):
        encode_properties(properties)


def test_a_refusal_is_a_value_error():
    with pytest.raises(ValueError, match="na"):
        encode_properties({"na\x01me": "value"})


@given(ROUGH)
def test_rough_text_is_read_as_java_reads_it(encoded):
    assert decode_properties(encoded) == plain_decode(encoded)


def test_the_last_pair_needs_no_end():
    assert decode_properties(b"a\x01b") == {"a": "b"}


def test_bytes_that_are_no_text_do_not_hide_the_rest():
    assert decode_properties(b"a\x01\xff\x02b\x01c\x02") == {"a": "\ufffd", "b": "c"}


@given(ROUGH, st.sampled_from(["a", "b", "ab", "ba"]))
def test_one_property_is_what_decoding_all_gives(encoded, name):
    assert property_finder(name)(encoded) == plain_decode(encoded).get(name, "")


def test_an_empty_value_does_not_hide_an_earlier_one():
    encoded = b"a\x01first\x02a\x01second\x02a\x01\x02"

    assert decode_properties(encoded) == {"a": "second"}
    assert property_finder("a")(encoded) == "second"


def test_a_name_within_another_is_not_found():
    find_tag = property_finder("TAGS")

    assert find_tag(b"MYTAGS\x01x\x02TAGS2\x01y\x02v\x01TAGS\x02") == ""
