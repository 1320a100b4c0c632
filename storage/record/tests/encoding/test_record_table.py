"""Tables of records: rows side by side, their pieces, and the sequences that they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import ProducerSequence, RecordTable
from ariane_record.checksums.checksum import crc32
from ariane_record.single.producer_sequence import stored_sequence
from ariane_record.testing.block_encoder import BlockEncoder, record_crcs_of
from ariane_record.testing.strategies import blocks

FIRST, SECOND = ProducerSequence(7, 1, 42), ProducerSequence(1 << 60, 3, 1 << 40)
COLUMNS = ("sizes", "tag_codes", "key_counts", "key_hashes")


def encoded(count, *, sequence=FIRST):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20, sequenced=sequence is not None)
    for number in range(count):
        encoder.add(b"x" * number, unique_id=f"{number:032X}", born_timestamp_ms=5)
    return encoder.finish(sequence)


def seen(table):
    columns = [getattr(table, name).tolist() for name in COLUMNS]
    crcs = None if table.record_crcs is None else table.record_crcs.tolist()
    return table.topics[0], table.counts[0], bytes(table.records), columns, table.crc32, crcs


@given(st.lists(blocks(count_min=1), min_size=1, max_size=5))
def test_tables_that_were_joined_are_the_rows_of_one(tables):
    joined = RecordTable.joined(tables)
    assert len(joined) == len(tables)
    assert joined.count == sum(table.count for table in tables)
    assert joined.size_bytes == sum(table.size_bytes for table in tables)
    assert joined.crc32 == crc32(joined.records)
    assert list(map(seen, joined.rows())) == list(map(seen, tables))


def test_records_stay_in_pieces_until_somebody_asks_for_them():
    tables = [encoded(2), encoded(3)]
    joined = RecordTable.joined(tables)
    assert all(piece is table.records for piece, table in zip(joined.pieces, tables, strict=True))
    assert len(joined.pieces) == 2
    assert joined.records == b"".join(table.records for table in tables)
    assert len(joined.pieces) == 1


def test_a_joined_table_has_sums_of_records_if_all_tables_have_them():
    many, few = encoded(200), encoded(1)
    assert RecordTable.joined([many]).record_crcs is many.record_crcs is not None
    rows = RecordTable.joined([many, many]).rows()
    assert [row.record_crcs.tolist() for row in rows] == [many.record_crcs.tolist()] * 2
    assert RecordTable.joined([many, few]).record_crcs is None


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize("is_in_pieces", [False, True])
def test_a_row_that_goes_elsewhere_is_the_one_made_for_there(count, is_in_pieces):
    row = encoded(count)
    if is_in_pieces:
        row = row.with_sequence(FIRST)
        assert len(row.pieces) == 3
    moved = row.with_sequence(SECOND)
    assert moved.crc32 == crc32(moved.records)
    assert stored_sequence(moved.records).sequence == SECOND
    if count > 1:
        said = record_crcs_of(moved.records, moved.sizes)
        assert moved.record_crcs.tolist() == said.tolist()
    assert moved.with_sequence(FIRST).records == encoded(count).records
    assert np.array_equal(moved.sizes, row.sizes)


@pytest.mark.parametrize("size", [0, 40, 120])
def test_a_row_without_room_goes_nowhere_else(size):
    row = encoded(1, sequence=None)
    scattered = RecordTable.of(
        "orders",
        b"",
        sizes=row.sizes,
        **{name: getattr(row, name) for name in COLUMNS[1:]},
        crc32=row.crc32,
    )
    scattered.pieces = (row.records[:size], row.records[size:])
    for table in (row, scattered):
        with pytest.raises(ValueError, match="no room"):
            table.with_sequence(FIRST)
