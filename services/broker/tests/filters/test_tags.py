"""Tag expressions, and the filters that they become."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_broker.filters.expression import FilterExpression, FilterLanguage
from ariane_broker.filters.filter import filter_for
from ariane_broker.filters.tags import parse_tags
from ariane_record import tag_code
from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_storage.queues.consume_queue_entry import ENTRY

# Two pairs of tags with the same hash, and others.
TAGS = ["", "Aa", "BB", "AaAa", "BBBB", "a", "arrived", "arrived on time", "ärger"]


@pytest.mark.parametrize("text", ["", "*", " * ", "  "])
def test_everything(text):
    assert parse_tags(text) is None
    assert filter_for(FilterExpression(text=text)) is None


def test_tags_are_trimmed_and_told_apart():
    assert parse_tags(" a ||b|| c d ||a") == {"a", "b", "c d"}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a || ", 4),
        ("|| a", 0),
        ("a |||| b", 4),
        ("a || *", 4),
        ("a | b", 0),
        ("a || b\x00", 4),
        ("x" * 4097, 4096),
        (" || ".join(f"t{number}" for number in range(129)), 0),
    ],
)
def test_an_invalid_expression_is_an_error_with_its_place(text, position):
    with pytest.raises(ServiceError) as raised:
        parse_tags(text)
    assert raised.value.row.name == "FILTER_EXPRESSION_INVALID"
    assert raised.value.metadata["position"] == str(position)


def test_uploaded_filters_are_not_pretended():
    with pytest.raises(ServiceError) as raised:
        filter_for(FilterExpression(FilterLanguage.UPLOADED, "delays@0123456789ab"))
    assert raised.value.row.name == "FEATURE_NOT_AVAILABLE"


def entries_of(tags):
    entries = np.zeros(len(tags), ENTRY)
    entries["tags_code"] = [tag_code(tag) for tag in tags]
    return entries


def records_of(tags):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for number, tag in enumerate(tags):
        properties = {"xTAGS": "Aa"} if number % 2 else {}
        encoder.add(b"TAGS", tag=tag, properties=properties, born_timestamp_ms=0)
    block = encoder.finish()
    return decode_columns(bytes(block.records), block.sizes)


@given(
    st.frozensets(st.sampled_from([tag for tag in TAGS if tag]), min_size=1),
    st.lists(st.sampled_from(TAGS), min_size=1, max_size=20),
    st.booleans(),
)
def test_tags_are_compared_by_hash_in_entries_and_by_name_in_records(wanted, tags, many):
    more = {f"tag {number}" for number in range(100)} if many else set()
    chosen = filter_for(FilterExpression(text="||".join(wanted | more)))
    codes = {tag_code(tag) for tag in wanted}
    assert chosen.looks_per_record
    assert chosen.entries_mask(entries_of(tags)).tolist() == [
        tag_code(tag) in codes for tag in tags
    ]
    assert chosen.records_mask(records_of(tags)).tolist() == [tag in wanted for tag in tags]


def test_a_reader_that_compares_tags_itself_is_spared_the_records():
    assert not filter_for(FilterExpression(text="a"), exact=False).looks_per_record
