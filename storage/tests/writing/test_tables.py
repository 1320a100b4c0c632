"""Rows that are appended at once leave what they leave one by one, or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ariane_record import ProducerSequence, RecordTable
from ariane_record.checksums.checksum import crc32
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import CRC_MASK, CRC_PROPERTY_BYTES, HEADER_BYTES
from ariane_record.single.producer_sequence import SEQUENCE_BYTES
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import BlockRejected, IllegalQueue, Store, StoreFull
from ariane_storage.log.records.fields import FIELD_STARTS
from ariane_storage.testing import FaultyDisk, FixedClock, block_of, small_config
from ariane_storage.writing.few_records import FEW, FewRecords
from ariane_storage.writing.table_check import TableLimits, check_table
from storage.tests.writing.block_oracle import check_block

HOST = ("10.1.2.3", 4711)
BODY_CRC = FIELD_STARTS["body_crc"]
LIMITS = TableLimits(record_bytes_max=1 << 12, table_bytes_max=1 << 22)
CONFIG = small_config(segment_bytes=1 << 15)


def encoded(topic, queue_id, rows, sequence=None):
    """What a block is, and what it looks like in a table."""
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20, sequenced=sequence is not None)
    for body, tag, keys in rows:
        encoder.add(body, tag=tag, keys=keys, unique_id="id", born_timestamp_ms=5)
    return encoder.finish(sequence), queue_id, sequence


messages = st.tuples(
    st.binary(max_size=40),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=4),
    st.lists(st.sampled_from(["k", "m"]), max_size=2, unique=True),
)
blocks = st.builds(
    encoded,
    st.sampled_from(["a", "flights", "x" * 127, "x" * 200]),
    st.integers(0, 2),
    st.lists(messages, min_size=1, max_size=5),
    st.sampled_from([None, None, ProducerSequence(7, 1, 42), ProducerSequence(1, 0, 0)]),
)


def table_of(*rows):
    """Rows with queue ids and perhaps sequences: the table, and what is said beside it."""
    blocks, queue_ids, sequences = zip(*[(*row, None)[:3] for row in rows], strict=True)
    return RecordTable.joined(blocks), queue_ids, sequences


def by_column(rows):
    """Whether rows are accepted by column."""
    table, _, sequences = table_of(*rows)
    try:
        check_table(table, LIMITS, sequences=sequences)
    except BlockRejected:
        return False
    return True


def by_record(rows):
    """Whether rows are accepted record by record."""
    table, _, sequences = table_of(*rows)
    return FewRecords.of(table, LIMITS, sequences) is not None


def append(store, *rows, **fields):
    table, queue_ids, sequences = table_of(*rows)
    return store.append(table, *queue_ids, sequences=sequences, **fields)


def store_with_log(config=CONFIG):
    """A store that has a segment already."""
    store = Store.open(Path("/store"), config, disk=FaultyDisk(), clock=FixedClock())
    store.append(block_of("first", [b"x"]), 0)
    return store


def left_by(store):
    """Everything that appends leave."""
    log = store._parts.log
    return (
        log.read(0, log.write_offset),
        {
            (topic, queue_id): store.queue_entries(topic, queue_id, 0, max_count=999).tobytes()
            for topic, queue_id in store.queues()
        },
        [
            [message.commit_log_offset for message in store.query_by_key(topic, key)]
            for topic, _ in store.queues()
            for key in ("k", "m", "id")
        ],
        [queue.last_record_end for queue in store._parts.queues],
    )


def said(appended):
    """The places that appends of neighbouring rows tell."""
    return [
        [first for one in appended for first in one.first_queue_offsets],
        [place for one in appended for place in one.edges[:-1]],
        [place for one in appended for place in one.commit_log_offsets.tolist()],
        appended[-1].next_commit_log_offset,
        {one.store_timestamp_ms for one in appended},
        [count for one in appended for count in one.counts],
    ]


@given(st.lists(blocks, min_size=1, max_size=12), st.booleans())
@settings(max_examples=12)
def test_at_once_and_one_by_one_are_the_same(rows, are_many):
    # Of few records each is looked at for itself; of many, they are by column.
    leave_the_same((rows * FEW)[: FEW + 1] if are_many else rows, HOST)


def leave_the_same(rows, host):
    config = small_config(segment_bytes=1 << 19)
    with store_with_log(config) as at_once, store_with_log(config) as one_by_one:
        appended = append(at_once, *rows, born_host=host)
        expected = [one_by_one.append(row[0], row[1], born_host=host) for row in rows]
        assert said([appended]) == said(expected)
        assert left_by(at_once) == left_by(one_by_one)


def with_true_body_crcs(block):
    """The block with the checksums that its bodies have."""
    records = bytearray(block.records)
    columns = decode_columns(block.records, block.sizes)
    bodies = zip(columns.body_start.tolist(), columns.body_length.tolist(), strict=True)
    for start, length in bodies:
        body_crc = crc32(block.records[start : start + length]) & CRC_MASK
        place = start - HEADER_BYTES + BODY_CRC
        records[place : place + 4] = body_crc.to_bytes(4, "big")
    return replace(block, pieces=(bytes(records),), crc32=crc32(bytes(records)))


FOUND_ROWS = [
    encoded(
        "x" * 127,
        0,
        [
            (b"\0\0\0\xd8", "\xd7", ["k", "m"]),
            (b"\0\0\0\0\0", "\U0001009c", ["k"]),
            (b"\0", "", []),
        ],
    ),
    encoded("a", 0, [(b"", "", [])] * 5),
]
"""So many records that not every body is looked at."""


@given(
    rows=st.lists(blocks, min_size=1, max_size=6),
    victim=st.integers(0, 5),
    changes=st.lists(
        st.tuples(st.integers(0, 1 << 12), st.integers(0, 255)), min_size=1, max_size=2
    ),
    longer=st.sampled_from([0, 0, 0, 0, 1, -5000, 1 << 30]),
)
@example(rows=FOUND_ROWS, victim=0, changes=[(554, 0)], longer=0)
@example(rows=FOUND_ROWS, victim=0, changes=[(631, 255)], longer=0)
@settings(max_examples=100)
def test_a_table_is_accepted_by_record_only_if_it_is_by_column(rows, victim, changes, longer):
    rows = list(rows)
    victim %= len(rows)
    block, queue_id, sequence = rows[victim]
    records = bytearray(block.records)
    for place, byte in changes:
        records[place % len(records)] = byte
    sizes = block.sizes.copy()
    sizes[0] += longer
    block = replace(block, pieces=(bytes(records),), sizes=sizes, crc32=crc32(bytes(records)))
    rows[victim] = block, queue_id, sequence
    # Of few records, each body is compared with its checksum.
    assert not by_record(rows) or by_column(rows)
    if by_column(rows):
        for changed, _, _ in rows:
            # Of all bodies together only some are looked at: a lie about the others, in the body
            # or in its checksum, harms only its producer.
            check_block(with_true_body_crcs(changed), LIMITS)


@pytest.mark.parametrize("place", [BODY_CRC, HEADER_BYTES])
def test_few_bodies_are_all_compared_with_their_checksums(place):
    block, _, _ = GOOD
    for start in decode_columns(block.records, block.sizes).starts.tolist():
        spoilt = with_bytes(block, start + place, b"z")
        assert not is_accepted(spoilt)
        assert not by_column([GOOD, (spoilt, 0), GOOD])


@pytest.mark.parametrize("place", [BODY_CRC, HEADER_BYTES])
def test_a_producer_whose_checksums_of_bodies_are_all_wrong_is_found(place):
    spoilt = encoded("a", 0, [(b"x", "", ())] * 5)[0]
    for start in decode_columns(spoilt.records, spoilt.sizes).starts.tolist():
        spoilt = with_bytes(spoilt, start + place, b"z")
    assert not by_column([*[(spoilt, 0)] * 20])


def is_accepted(block):
    try:
        check_block(block, LIMITS)
    except BlockRejected:
        return False
    return True


def with_bytes(block, begin, put):
    """A block with other bytes at a place, and its checksum."""
    records = bytes(block.records)
    records = records[:begin] + put + records[begin + len(put) :]
    return replace(block, pieces=(records,), crc32=crc32(records))


HOSTILE = [
    b"\xc3",
    b"\xa9",
    "é".encode(),
    b"\xff",
    b"\x80",
    b"\x02",
    b"P",
    b"\x02__PSEQ#\x01",
    b"\x00",
]


@given(st.lists(blocks, min_size=1, max_size=5), st.data())
@settings(max_examples=100)
def test_texts_behind_bodies_are_judged_as_one_by_one(rows, data):
    victim = data.draw(st.integers(0, len(rows) - 1))
    block, queue_id, sequence = rows[victim]
    columns = decode_columns(block.records, block.sizes)
    record = data.draw(st.integers(0, len(columns) - 1))
    # Of the topic, or anywhere in the properties but where they say a sequence.
    is_first = sequence is not None and record == 0
    start = int(columns.properties_start[record]) + (SEQUENCE_BYTES if is_first else 0)
    end = int(columns.starts[record] + columns.sizes[record]) - CRC_PROPERTY_BYTES
    put = data.draw(st.sampled_from(HOSTILE).filter(lambda text: len(text) <= end - start))
    topic = int(columns.topic_start[record])
    place = data.draw(st.sampled_from([topic - 1, topic]) | st.integers(start, end - len(put)))
    block = with_bytes(block, place, put)
    rows[victim] = block, queue_id, sequence
    assert by_column(rows) == is_accepted(block)
    assert by_record(rows) == by_column(rows)


def test_a_first_property_without_the_end_of_its_name_is_refused_in_every_record():
    block, _, _ = GOOD
    columns = decode_columns(block.records, block.sizes)
    for start in columns.properties_start.tolist():
        place = bytes(block.records).index(b"\x01", start)
        spoilt = with_bytes(block, place, b"z")
        assert not is_accepted(spoilt)
        assert not by_column([(spoilt, 0), GOOD])


@pytest.mark.parametrize("topics", [("a", "a"), ("a", "bb", "c" * 127), ("c" * 127, "bb", "a")])
def test_every_letter_of_every_topic_is_looked_at(topics):
    rows = [(block_of(topic, [b"x", b"yy"]), 0) for topic in topics]
    assert by_column([*rows])
    for victim, (block, _) in enumerate(rows):
        columns = decode_columns(block.records, block.sizes)
        for start in columns.topic_start.tolist():
            for place in range(start - 1, start + len(block.topic)):
                spoilt = list(rows)
                spoilt[victim] = with_bytes(block, place, b"z"), 0
                assert not by_column([*spoilt])


def test_a_sequence_that_another_block_does_not_say_is_not_taken_for_its_own():
    first, _, sequence = SEQUENCED
    silent = GOOD[0]
    assert by_column([(first, 0, sequence), (silent, 0)])
    assert not by_column([(first, 0), (silent, 0, sequence)])


GOOD = encoded("a", 0, [(b"x", "", ()), (b"y", "t", ("k",))])
SEQUENCED = encoded("a", 1, [(b"x", "", ()), (b"y", "t", ("k",))], ProducerSequence(7, 0, 2))


@pytest.mark.parametrize(
    "bad",
    [
        (replace(GOOD[0], crc32=1), 0),
        (replace(GOOD[0], topics=("b",)), 0),
        (replace(GOOD[0], sizes=GOOD[0].sizes[::-1].copy()), 0),
        (replace(GOOD[0], key_counts=GOOD[0].key_counts + np.uint8(1)), 0),
        (replace(GOOD[0], key_hashes=-GOOD[0].key_hashes), 0),
        (*SEQUENCED[:2], None),
        (*SEQUENCED[:2], ProducerSequence(7, 0, 3)),
        (*GOOD[:2], ProducerSequence(7, 0, 2)),
        (block_of("SCHEDULE_TOPIC_XXXX", [b"x"]), 0),
        (block_of("rmq_sys_wheel_timer", [b"x"]), 0),
        (block_of("a", [b"x" * 4096]), 0),
        (block_of("a", [b"x"], system_flag=0x4), 0),
    ],
)
def test_an_invalid_row_keeps_the_whole_table_from_the_store(bad):
    with store_with_log() as store:
        before = left_by(store)
        for rows in ([GOOD, bad, SEQUENCED], [*[GOOD] * FEW, bad, SEQUENCED]):
            with pytest.raises(BlockRejected):
                append(store, *rows)
        assert left_by(store) == before
        assert append(store, GOOD, SEQUENCED).count == 4


def test_a_sequence_in_a_later_record_is_not_taken():
    first, _, _ = SEQUENCED
    later = first.records + first.records
    twice = replace(
        first,
        counts=(2 * first.count,),
        pieces=(later,),
        crc32=crc32(later),
        **{
            name: np.concatenate([getattr(first, name)] * 2)
            for name in ("sizes", "tag_codes", "key_counts", "key_hashes")
        },
    )
    with store_with_log() as store:
        for rows in ([(twice, 0)], [(twice, 0, SEQUENCED[2]), GOOD], [(twice, 0), *[GOOD] * FEW]):
            with pytest.raises(BlockRejected):
                append(store, *rows)


def test_rows_stay_in_one_segment():
    block = block_of("a", [b"x" * 3000])
    with store_with_log() as store:
        with pytest.raises(BlockRejected, match="a segment takes"):
            append(store, *[(block, 0)] * 20)
        first = append(store, *[(block, 0)] * 9)
        second = append(store, *[(block, 0)] * 2)
        assert first.next_commit_log_offset < CONFIG.segment_bytes == second.edges[0]
        assert store.queue_bounds("a", 0) == (0, 11)


def test_rows_are_as_wide_as_their_hosts_need():
    rows = [GOOD, SEQUENCED, (block_of("x" * 200, [b"x"]), 0), GOOD]
    leave_the_same(rows, ("::1", 1))
    with store_with_log() as store:
        appended = append(store, *rows, born_host=("::1", 1))
        assert store.message_at(appended.first_commit_log_offset).born_host == ("::1", 1)


def test_a_queue_that_has_no_name_stores_nothing():
    with store_with_log() as store:
        before = left_by(store)
        with pytest.raises(IllegalQueue):
            append(store, GOOD, (block_of("a/b", [b"x"]), 0))
        assert left_by(store)[:3] == before[:3]


def test_a_full_store_takes_none():
    with store_with_log() as store:
        store._parts.full_reason = "full"
        with pytest.raises(StoreFull):
            append(store, GOOD, SEQUENCED)


def test_a_table_of_several_rows_is_there_after_a_crash(bench):
    bench.config = CONFIG
    store = bench.open()
    store.append(block_of("first", [b"x"]), 0)
    append(store, GOOD, SEQUENCED, GOOD)
    before = left_by(store)
    store = bench.reopen_after_kill()
    assert left_by(store) == before
    assert store.damage == ()
    store.close()
