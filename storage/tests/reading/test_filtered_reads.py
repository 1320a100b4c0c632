"""What a filter lets through is read, all of it, once; what it leaves out is passed over."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane_storage.reading import queue_reader
from ariane_storage.reading.read import QueueReadStatus
from ariane_storage.testing import FaultyDisk, Saying, block_of

COUNT = 200


def every(step):
    return Saying(lambda records: records.queue_offset % step == 0)


@pytest.fixture(scope="module")
def store(bench_class):
    """Two queues whose records alternate, some alone and some in runs."""
    bench = bench_class(disk=FaultyDisk())
    bench.config = replace(bench.config, segment_bytes=1 << 20)
    store = bench.open()
    number = 0
    while number < COUNT:
        run = min(1 + number % 7, COUNT - number)
        bodies = [b"x" * (1 + (number + place) % 50) for place in range(run)]
        store.append(block_of("flights", bodies), 0)
        store.append(block_of("delays", [b"y" * 1500]), 0)
        number += run
    yield store
    store.close()


def offsets_of(read):
    octets = b"".join(read.chunks)
    found, start = [], 0
    for size in read.sizes.tolist():
        found.append(int.from_bytes(octets[start + 20 : start + 28], "big"))
        start += size
    assert start == len(octets) == read.size_bytes
    return found


@settings(max_examples=40)
@given(
    step=st.integers(1, 60),
    begin=st.integers(0, COUNT),
    max_count=st.integers(1, 60),
    max_bytes=st.sampled_from([1, 300, 2000, 1 << 20]),
    looked_at=st.sampled_from([1, 500, 5000, 1 << 20]),
)
def test_all_that_is_wanted_is_read_once_and_in_order(
    store, step, begin, max_count, max_bytes, looked_at
):
    found, place = [], begin
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_reader, "LOOKED_AT_BYTES", looked_at)
        while place < COUNT:
            read = store.read_queue(
                "flights", 0, place, max_count=max_count, max_bytes=max_bytes, wanted=every(step)
            )
            assert place < read.next_queue_offset <= COUNT
            some = offsets_of(read)
            assert read.status is (QueueReadStatus.FOUND if some else QueueReadStatus.FILTERED)
            assert len(some) <= max_count
            assert len(some) <= 1 or read.size_bytes <= max_bytes
            assert all(place <= each < read.next_queue_offset for each in some)
            found += some
            place = read.next_queue_offset
    assert found == [each for each in range(begin, COUNT) if each % step == 0]


def test_a_filter_that_wants_nothing_looks_at_so_much_and_no_more(store, monkeypatch):
    monkeypatch.setattr(queue_reader, "LOOKED_AT_BYTES", 1000)
    nothing = Saying(lambda records: records.queue_offset < 0)
    read = store.read_queue("flights", 0, 0, max_count=1, max_bytes=1, wanted=nothing)
    assert read.status is QueueReadStatus.FILTERED
    assert 0 < read.looked_at_bytes <= 1000 + 20 * read.next_queue_offset
    assert read.next_queue_offset > 3


@pytest.mark.parametrize("step", [1, 2])
def test_the_only_message_there_is_passes_the_filter_too(store, step):
    read = store.read_queue("flights", 0, COUNT - 1, max_count=1, max_bytes=1, wanted=every(step))
    assert offsets_of(read) == ([COUNT - 1] if step == 1 else [])
    assert read.next_queue_offset == COUNT
