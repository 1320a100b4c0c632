"""Messages of more than a megabyte, whose records are read only once they are known to be right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import QueueOffsetOutOfRange, TimeBoundary
from ariane_storage.testing import apply_retention

COUNT = 20
BODY = bytes(3 << 19)


@pytest.fixture
def large(bench):
    """A store whose last queue entries are all of large messages, closed."""
    bench.config = replace(bench.config, segment_bytes=8 << 20, record_bytes_max=4 << 20)
    with bench.open() as store:
        for _ in range(COUNT):
            bench.clock.advance(1000)
            encoder = BlockEncoder("flights", size_bytes_max=4 << 20)
            encoder.add(BODY, tag="large", born_timestamp_ms=1)
            store.append(encoder.finish(), 0)
    return bench


def test_their_queue_is_known_as_its_own(large):
    with large.open() as store:
        assert store.recovery.rebuilt == ()
        assert not store.repairs.needed


def test_their_times_are_looked_up(large):
    with large.open() as store:
        now_ms = large.clock.now_ms()
        for number in range(COUNT):
            time_ms = now_ms - 1000 * (COUNT - 1 - number)
            for boundary in TimeBoundary:
                found = store.queue_offset_at_time("flights", 0, time_ms, boundary=boundary)
                assert found == number


def test_retention_moves_the_begin_of_their_queue_and_tells(large):
    with large.open() as store:
        large.disk.used_ratio = 0.86
        report = apply_retention(store)
        begin, end = store.queue_bounds("flights", 0)
        assert begin == 5 * len(report.deleted) > 0
        (told,) = report.ranges
        assert (told.begin, told.end) == (0, begin)
        assert not store.repairs.needed
        with pytest.raises(QueueOffsetOutOfRange):
            store.read_queue("flights", 0, 0, max_count=1, max_bytes=1)
        assert store.read_queue("flights", 0, begin, max_count=99, max_bytes=1 << 30).count == (
            end - begin
        )
