"""Messages that expire are passed over by reads that say what time it is."""

import numpy as np
import pytest

from ariane_record import SystemFlag
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import QueueReadStatus

TAGS = {"odd": 1}


@pytest.fixture
def store(bench):
    with bench.open() as opened:
        yield opened


def append(store, *times, flagged=True):
    """One message for each time; None: it does not expire."""
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for place, time in enumerate(times):
        encoder.add(
            b"%d" % place,
            born_timestamp_ms=0,
            properties=None if time is None else {"EXPIRES_AT_MS": str(time)},
            system_flag=int(SystemFlag.EXPIRES) if flagged and time is not None else 0,
        )
    store.append(encoder.finish(), 0)


class AllBut:
    """A filter that looks at records, and leaves one out."""

    looks_per_record = 1

    def __init__(self, place):
        self._place = place

    def entries_mask(self, entries):
        return np.ones(len(entries), np.bool_)

    def records_mask(self, records):
        return records.queue_offset != self._place


def read(store, now_ms, begin=0, count=100, wanted=None):
    found = store.read_queue(
        "orders", 0, begin, max_count=count, max_bytes=1 << 20, wanted=wanted, now_ms=now_ms
    )
    return found, [bytes(record)[88:89] for record in records(found)]


def records(found):
    joined, place = b"".join(found.chunks), 0
    for size in found.sizes.tolist():
        yield joined[place : place + size]
        place += size
    assert place == len(joined)


def test_what_has_expired_is_passed_over_and_counted(store):
    append(store, None, 50, 100, 200, None, 99)
    found, bodies = read(store, 100)
    assert bodies == [b"0", b"3", b"4"]
    assert (found.expired_count, found.next_queue_offset) == (3, 6)
    assert read(store, 98)[1] == [b"0", b"2", b"3", b"4", b"5"]
    # Who does not say what time it is reads all.
    found, bodies = read(store, 0)
    assert (len(bodies), found.expired_count) == (6, 0)


def test_what_a_filter_leaves_out_has_not_expired_for_its_reader(store):
    append(store, 50, None, 50, None, 50)
    found, bodies = read(store, 100, wanted=AllBut(2))
    assert (bodies, found.expired_count, found.next_queue_offset) == ([b"1", b"3"], 2, 5)
    # What is behind the last one taken is counted when it is passed over.
    found, bodies = read(store, 100, wanted=AllBut(2), count=1)
    assert (bodies, found.expired_count, found.next_queue_offset) == ([b"1"], 1, 3)
    found, bodies = read(store, 100, begin=2, wanted=AllBut(3))
    assert (bodies, found.expired_count, found.next_queue_offset) == ([], 2, 5)


@pytest.mark.parametrize("count", [1, 2])
def test_where_all_have_expired_a_read_goes_on_behind_them(store, count):
    append(store, 50, 60, None)
    found, bodies = read(store, 100, count=count)
    assert (found.status, bodies) == (QueueReadStatus.FILTERED, [])
    assert (found.next_queue_offset, found.expired_count) == (count, count)
    assert read(store, 100, begin=2)[1] == [b"2"]


@pytest.mark.parametrize("time", ["soon", "", "-1", "1" * 30])
def test_a_time_that_is_none_never_comes(store, time):
    append(store, time or "x", 50)
    assert read(store, 100)[1] == [b"0"]


def test_the_flag_alone_says_that_a_message_expires(store):
    append(store, 50, flagged=False)
    assert read(store, 100)[1] == [b"0"]
