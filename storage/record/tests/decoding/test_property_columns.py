import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.decoding.property_columns import decode_property_columns
from ariane_record.single.properties import decode_properties, encode_properties
from ariane_record.testing.strategies import property_maps

# Few letters, so that separators, empty parts, repeated names and bytes that are no text meet.
ROUGH = st.lists(st.sampled_from([b"a", b"b", b"\x01", b"\x02", b"\xff", b"\xc3"]), max_size=16)
ROWS = st.lists(property_maps().map(encode_properties) | ROUGH.map(b"".join), max_size=6)
LONG_NAMES = ["KEYS", "TAGS", "UNIQ_KEY", "__SHARDINGKEY", "__SHARDINGKEX", "TIMER_DELIVER_MS"]


def columns_of(rows, gap=b"??"):
    """The rows with something else between them, as they lie in records."""
    records = gap + b"".join(row + gap for row in rows)
    lengths = np.array([len(row) for row in rows], np.int64)
    starts = np.cumsum(lengths + len(gap)) - lengths
    return decode_property_columns(records, starts, lengths)


def maps_of(columns):
    """One dictionary for each row."""
    maps = [{} for _ in range(columns.row_count)]
    for row, start, middle, value, end in zip(
        columns.row,
        columns.name_start,
        columns.name_end,
        columns.value_start,
        columns.value_end,
        strict=True,
    ):
        name = columns.text[start:middle].decode()
        maps[row][name] = columns.text[value:end].decode()
    return maps


@given(ROWS)
def test_pairs_equal_decoding_row_by_row(rows):
    assert maps_of(columns_of(rows)) == [decode_properties(row) for row in rows]


@given(ROWS, st.sampled_from(["a", "b", "ab", "\ufffd", "KEYS"]))
def test_a_named_property_equals_decoding_row_by_row(rows, name):
    columns = columns_of(rows)
    pairs = columns.pair_of_each_row(name)

    values = columns.texts(pairs[pairs >= 0])

    expected = [decode_properties(row).get(name) for row in rows]
    assert values == [value for value in expected if value is not None]
    assert (pairs >= 0).tolist() == [value is not None for value in expected]


@given(st.lists(st.lists(st.sampled_from(LONG_NAMES), max_size=8), max_size=5))
def test_names_are_told_apart_to_their_last_byte(names_of_rows):
    rows = [b"".join(name.encode() + b"\x01v\x02" for name in names) for names in names_of_rows]
    columns = columns_of(rows)
    flat = [name for names in names_of_rows for name in names]

    for name in LONG_NAMES:
        assert columns.named(name).tolist() == [other == name for other in flat]


@given(ROWS)
def test_of_repeated_names_the_last_is_kept(rows):
    columns = columns_of(rows)

    kept = columns.last_of_each_name(np.arange(len(columns.row)))

    expected = [decode_properties(row) for row in rows]
    assert len(kept) == sum(map(len, expected))
    flat = [value for row in expected for value in row.values()]
    assert sorted(columns.texts(kept)) == sorted(flat)
    assert kept.tolist() == sorted(kept.tolist())


def test_more_names_than_are_compared_pair_by_pair():
    names = [f"name-{number}" for number in range(200)] + ["name-7"]
    row = b"".join(name.encode() + b"\x01v\x02" for name in names)
    columns = columns_of([row, row[: -len(b"name-7\x01v\x02")]])

    kept = columns.last_of_each_name(np.arange(len(columns.row)))

    assert len(kept) == 400
    assert 7 not in kept
    assert 200 in kept
