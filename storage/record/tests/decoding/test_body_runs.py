import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.decoding import body_runs
from ariane_record.decoding.body_runs import RUN_RECORDS_MIN, BodyRun, gather_bodies
from ariane_record.decoding.columns import decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import HEADER_BYTES, SYSTEM_FLAG_START, SystemFlag
from ariane_record.testing.block_encoder import BlockEncoder

QUEUE_OFFSET_START = 20


def records_of(bodies, first_offset=40, *, gaps=False):
    """Records with consecutive queue offsets, and their sizes."""
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for body in bodies:
        encoder.add(body, born_timestamp_ms=0)
    block = encoder.finish()
    records = bytearray(block.records)
    for number, start in enumerate((np.cumsum(block.sizes) - block.sizes).tolist()):
        place = start + QUEUE_OFFSET_START
        records[place : place + 8] = (first_offset + number * (1 + gaps)).to_bytes(8)
    return records, block.sizes


@st.composite
def stored(draw):
    """Records, cut into chunks anywhere between two."""
    shapes = draw(st.lists(st.tuples(st.binary(max_size=9), st.integers(1, 5)), min_size=1))
    bodies = [body for body, count in shapes for _ in range(count)]
    records, sizes = records_of(bodies)
    ends = np.cumsum(sizes).tolist()
    cuts = sorted({0, ends[-1], *draw(st.lists(st.sampled_from(ends)))})
    chunks = [memoryview(records)[a:b] for a, b in itertools.pairwise(cuts)]
    return bodies, chunks, sizes


@given(stored())
def test_bodies_are_those_of_the_records(case):
    bodies, chunks, sizes = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_runs, "RUN_RECORDS_MIN", 1)
        gathered = gather_bodies(chunks, sizes)

    assert gathered is not None
    assert gathered.octets.tobytes() == b"".join(bodies)
    assert [run.body_bytes for run in gathered.runs for _ in range(run.message_count)] == list(
        map(len, bodies)
    )
    assert [
        run.first_queue_offset + place
        for run in gathered.runs
        for place in range(run.message_count)
    ] == list(range(40, 40 + len(bodies)))
    assert sum(run.message_count * run.record_bytes for run in gathered.runs) == sizes.sum()


def test_runs_end_where_sizes_change():
    records, sizes = records_of([b"longer", *[b"body"] * (3 * RUN_RECORDS_MIN)])

    gathered = gather_bodies([memoryview(records)], sizes)

    assert gathered.runs == [
        BodyRun(40, 1, sizes[0], 6),
        BodyRun(41, 3 * RUN_RECORDS_MIN, sizes[1], 4),
    ]


def test_many_short_chunks_are_one():
    records, sizes = records_of([b"body"] * 4 * RUN_RECORDS_MIN)
    chunks = [memoryview(records)[a : a + sizes[0]] for a in range(0, len(records), sizes[0])]

    gathered = gather_bodies(chunks, sizes)

    assert [run.message_count for run in gathered.runs] == [len(sizes)]
    assert gathered.octets.tobytes() == b"body" * len(sizes)


def test_sizes_that_change_often_are_not_worth_it():
    records, sizes = records_of([b"a", b"bb"] * RUN_RECORDS_MIN)
    assert gather_bodies([memoryview(records)], sizes) is None


def test_nothing_is_no_run():
    assert gather_bodies([], np.empty(0, np.int32)) is None


@pytest.mark.parametrize(
    "flag",
    [SystemFlag.COMPRESSED, SystemFlag.BORN_HOST_IPV6, SystemFlag.STORE_HOST_IPV6],
)
@pytest.mark.parametrize("position", [0, 70, 199])
def test_bodies_that_lie_elsewhere_or_are_compressed_are_left(flag, position):
    records, sizes = records_of([b"body"] * 200)
    assert gather_bodies([memoryview(records)], sizes) is not None
    records[position * sizes[0] + SYSTEM_FLAG_START + 3] |= flag
    assert gather_bodies([memoryview(records)], sizes) is None


@pytest.mark.parametrize("position", [0, 70, 199])
@pytest.mark.parametrize("length", [0, 3, 5, 1 << 30, -1])
def test_lengths_that_are_not_alike_or_do_not_fit_are_left(position, length):
    records, sizes = records_of([b"body"] * 200)
    place = position * sizes[0] + HEADER_BYTES - 4
    records[place : place + 4] = length.to_bytes(4, signed=True)
    assert gather_bodies([memoryview(records)], sizes) is None


def test_a_body_longer_than_all_its_records_is_left():
    records, sizes = records_of([b"body"] * 200)
    for place in range(HEADER_BYTES - 4, len(records), sizes[0]):
        records[place : place + 4] = int(sizes[0]).to_bytes(4)
    assert gather_bodies([memoryview(records)], sizes) is None


def test_gaps_between_queue_offsets_are_left():
    records, sizes = records_of([b"body"] * 200, gaps=True)
    assert gather_bodies([memoryview(records)], sizes) is None


def test_sizes_that_do_not_fit_the_chunks_are_refused():
    records, sizes = records_of([b"body"] * 200)
    with pytest.raises(RecordCorrupted):
        gather_bodies([memoryview(records)[: -sizes[0]]], sizes)
    with pytest.raises(RecordCorrupted):
        gather_bodies([memoryview(records)[:-1]], sizes)


def test_what_is_gathered_is_what_whole_records_say():
    records, sizes = records_of([b"x" * 300] * 500)
    gathered = gather_bodies([memoryview(records)], sizes)
    assert gathered.octets.tobytes() == b"".join(decode_columns(records, sizes).bodies())
