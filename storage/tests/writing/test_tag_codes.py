"""The column of tag codes and the tags of the records: they agree, or nothing is stored."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ariane_record import RecordTable, decode_properties, tag_code
from ariane_record.checksums.checksum import crc32
from ariane_record.decoding.columns import decode_columns
from ariane_record.encoding.moved_records import MovedRecords
from ariane_storage import BlockRejected
from ariane_storage.log.records.tag_check import tag_code_of, tag_codes_of
from ariane_storage.testing import block_of

NAMES = st.sampled_from(["TAGS", "KEYS", "XTAGS", "TAGSX", "G", "TAG"])
VALUES = st.sampled_from(["", "a", "arrived", "delayed", "TAGS", "größer", "x" * 300])
PROPERTIES = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda pairs: "".join(f"{name}\1{value}\2" for name, value in pairs).encode()
)


def expected(properties):
    """The code of the tag that readers find."""
    return tag_code(decode_properties(properties).get("TAGS", ""))


@given(st.lists(PROPERTIES, min_size=1, max_size=6), st.sampled_from([1, 5]))
@example([b"KEYS\1a\2", b"TAGS\1a\2TAGS\1b\2"], 1)
@example([b"TAGS\1a\2TAGS\1b\2"], 5)
@example([b"TAGS\1a\2TAGS\1\2"], 5)
@example([b"TAGS\1\2"], 5)
@example([b"", b"TAGS\1a\2", b""], 1)
@example([b"TAGS\1unended"], 1)
def test_codes_by_column_are_those_of_each_record(properties, times):
    properties = properties * times
    wanted = list(map(expected, properties))
    assert list(map(tag_code_of, properties)) == wanted
    lengths = np.array(list(map(len, properties)), np.int64)
    encoded = b"".join(properties)
    assert tag_codes_of(encoded, lengths, len(lengths)).tolist() == wanted
    if len(set(lengths.tolist())) == 1:
        assert tag_codes_of(encoded, int(lengths[0]), len(lengths)).tolist() == wanted


def test_a_name_that_only_two_records_make_together_begins_no_tag():
    properties = [b"KEYS\1a\2TA", b"GS\1b\2", b"TAGS\1c\2"]
    lengths = np.array(list(map(len, properties)), np.int64)
    found = tag_codes_of(b"".join(properties), lengths, len(lengths))
    assert found.tolist() == list(map(expected, properties)) == [0, 0, tag_code("c")]


def test_tags_of_more_than_one_chunk_have_codes_too():
    tags = [f"t{place}" * 100 for place in range(300)]
    properties = [f"TAGS\1{tag}\2".encode() for tag in tags]
    lengths = np.array(list(map(len, properties)), np.int64)
    found = tag_codes_of(b"".join(properties), lengths, len(lengths))
    assert found.tolist() == list(map(tag_code, tags))


def lied(block, place, code):
    codes = block.tag_codes.copy()
    codes[place] = code
    return replace(block, tag_codes=codes)


@pytest.mark.parametrize("count", [1, 3, 300])
@pytest.mark.parametrize("tags", ["", "a", "a bb ccc"], ids=["none", "even", "uneven"])
@pytest.mark.parametrize("lie", ["another", "none", "first"])
def test_a_block_that_lies_about_a_tag_is_refused(bench, count, tags, lie):
    bench.config = replace(bench.config, segment_bytes=1 << 20, scan_entries_max=1000)
    store = bench.open()
    words = (tags.split() or [""]) * count
    block = block_of("flights", [b"x"] * count, tags=words[:count])
    place = 0 if lie == "first" else count - 1
    code = 0 if lie == "none" else 12345
    if block.tag_codes[place] == code:
        code = 7
    with pytest.raises(BlockRejected, match="its tag code is not that of its tag") as refusal:
        store.append(lied(block, place, code), 0)
    assert refusal.value.position == place
    assert store.max_offset == 0
    store.append(block, 0)
    assert store.queue_entries("flights", 0, 0, max_count=count)["tags_code"].tolist() == (
        list(map(tag_code, words[:count]))
    )
    store.close()


def with_two_tags(count):
    """Records with the tags a and b, in this order; no producer of ours makes them."""
    block = block_of("flights", [b"x"] * count, tags=["b"] * count, keys=[("a",)] * count)
    records = bytes(block.records).replace(b"KEYS\1a\2", b"TAGS\1a\2")
    return replace(
        block,
        pieces=(records,),
        crc32=crc32(records),
        key_counts=np.zeros(count, np.uint8),
        key_hashes=block.key_hashes[:0],
        record_crcs=None,
    )


@pytest.mark.parametrize("count", [1, 3, 300])
def test_of_two_tags_the_last_counts_when_a_record_is_stored_read_and_moved(bench, count):
    bench.config = replace(bench.config, segment_bytes=1 << 20, scan_entries_max=1000)
    store = bench.open()
    block = with_two_tags(count)
    with pytest.raises(BlockRejected, match="its tag code is not that of its tag"):
        store.append(lied(block, 0, tag_code("a")), 0)
    appended = store.append(block, 0)
    assert store.message_at(appended.first_commit_log_offset).tag == "b"
    moved = MovedRecords(decode_columns(block.records, block.sizes), dropped=())
    copies = moved.block("elsewhere", np.arange(count), heads=[b""] * count)
    store.append(copies, 0)
    for _ in range(2):
        for topic in ("flights", "elsewhere"):
            codes = store.queue_entries(topic, 0, 0, max_count=count)["tags_code"]
            assert codes.tolist() == [tag_code("b")] * count
        store.close()
        store = bench.open(rebuild=True)
    store.close()


@pytest.mark.parametrize("liar", [None, 0, 1])
def test_a_table_with_a_row_that_lies_about_a_tag_is_not_taken(store, liar):
    blocks = [block_of("flights", [b"x"] * 3, tags=["a", "bb", ""]) for _ in range(2)]
    if liar is not None:
        blocks[liar] = lied(blocks[liar], 2, tag_code("a"))
    table = RecordTable.joined(blocks)
    end = store.append(block_of("flights", [b"first"]), 0).next_commit_log_offset
    with pytest.raises(BlockRejected) if liar is not None else nullcontext():
        store.append(table, 0, 1)
    assert (store.max_offset == end) == (liar is not None)
