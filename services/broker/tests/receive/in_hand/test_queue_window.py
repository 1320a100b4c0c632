"""Windows against a dictionary: whatever is handed out, hidden and settled, they hold the same."""

import random

import numpy as np
import pytest

from ariane_broker.receive.in_hand.queue_window import OFFSET_MAX, TIMED, QueueWindow
from ariane_broker.receive.in_hand.ranges import apart, offsets_of, ranges_of


class PlainWindow:
    """What a window should hold: until, serial, attempts and holder by offset."""

    def __init__(self):
        self.end = 0
        self.rows = {}

    def look(self, offsets, end):
        for offset in offsets:
            if offset >= self.end:
                self.rows[offset] = (0, 0, 0, 0)
        self.end = max(self.end, end)

    def hand(self, offsets, serial, until_ms, attempts, end, passed):
        self.look(offsets if passed else range(self.end, end), end)
        for offset in offsets:
            self.rows[offset] = (until_ms, serial, attempts, 0)

    def settle(self, offsets):
        for offset in offsets:
            self.rows.pop(offset, None)

    def hide(self, offsets, until_ms, given_back, holder):
        for offset in set(offsets) & self.rows.keys():
            _, serial, attempts, _ = self.rows[offset]
            self.rows[offset] = (until_ms, 0 if given_back else serial, attempts, holder or TIMED)

    def raise_floor(self, offset):
        if offset > min(self.rows, default=self.end):
            self.rows = {key: row for key, row in self.rows.items() if key >= offset}
            self.end = max(self.end, offset)


def int64s(offsets):
    return np.array(sorted(offsets), np.int64)


def some(draw, offsets):
    """A run of offsets, or some that lie apart."""
    offsets = sorted(offsets)
    if not offsets:
        return []
    first = draw.randrange(len(offsets))
    run = offsets[first : first + draw.randrange(1, 40)]
    return run if draw.random() < 0.6 else draw.sample(run, draw.randrange(1, len(run) + 1))


def change(draw, window, plain, serial):
    kind = draw.choice(["fresh", "fresh", "again", "settle", "settle", "hide", "floor"])
    until_ms, attempts = draw.randrange(1, 100), draw.randrange(1, 9)
    known = some(draw, plain.rows.keys())
    if kind == "fresh":
        looked = range(plain.end, plain.end + draw.randrange(1, 60))
        # Those that come again were handed out before; a filter leaves some of the others out.
        offsets = set(looked if draw.random() < 0.5 else some(draw, looked)) | set(known)
        passed = draw.random() < 0.5
        window.hand(
            int64s(offsets),
            serial,
            until_ms,
            attempts=np.array([attempts], np.int32),
            end=looked.stop,
            passed=passed,
        )
        plain.hand(offsets, serial, until_ms, attempts, looked.stop, passed)
    elif kind == "again" and known:
        one = np.array([attempts], np.int32)
        end = plain.end
        window.hand(int64s(known), serial, until_ms, attempts=one, end=end, passed=True)
        plain.hand(known, serial, until_ms, attempts, end, passed=True)
    elif kind == "settle":
        # Also what is settled already, or nobody has had.
        first = draw.randrange(plain.end + 5)
        named = known if draw.random() < 0.7 else range(first, first + draw.randrange(1, 20))
        window.settle(int64s(named))
        plain.settle(named)
    elif kind == "hide":
        given_back, holder = draw.random() < 0.5, draw.randrange(3)
        window.hide(int64s(known), until_ms, given_back=given_back, holder=holder)
        plain.hide(known, until_ms, given_back, holder)
    elif kind == "floor" and draw.random() < 0.2:
        offset = draw.randrange(plain.end + 3)
        window.raise_floor(offset)
        plain.raise_floor(offset)


def check(draw, window, plain):
    fields = ["offset", "until_ms", "serial", "attempts", "holder"]
    assert window.rows[fields].tolist() == [
        (offset, *plain.rows[offset]) for offset in sorted(plain.rows)
    ]
    assert len(window) == len(plain.rows)
    assert window.end == plain.end
    assert window.floor == min(plain.rows, default=plain.end)
    assert window.due_ms == min((row[0] for row in plain.rows.values()), default=OFFSET_MAX)
    now_ms = draw.randrange(100)
    visible = window.offsets[window.visible(now_ms)].tolist()
    assert visible == [key for key in sorted(plain.rows) if plain.rows[key][0] <= now_ms]
    if plain.rows:
        serial = draw.choice(list(plain.rows.values()))[1]
        mine = [key for key in sorted(plain.rows) if plain.rows[key][1] == serial]
        assert window.find(serial, None).tolist() == mine
        named = some(draw, range(plain.end))
        found = window.find(serial, ranges_of(int64s(named)))
        assert found.tolist() == [offset for offset in mine if offset in named]


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_what_a_dictionary_says(seed):
    draw = random.Random(seed)
    window, plain = QueueWindow(0), PlainWindow()
    for step in range(1, 120):
        change(draw, window, plain, step)
        check(draw, window, plain)


def test_a_window_that_was_large_gives_its_memory_back():
    window, count = QueueWindow(0), 50_000
    everything = np.arange(count, dtype=np.int64)
    window.hand(everything, 1, 9, attempts=np.array([1], np.int32), end=count, passed=True)
    window.settle(everything[:-10])
    assert window.offsets.tolist() == list(range(count - 10, count))
    assert window.rows.base is None or len(window.rows.base) <= 10
    assert window.find(1, None).tolist() == list(range(count - 10, count))


@pytest.mark.parametrize(
    "ranges", [[[3, 5]], [[3, 5], [9, 1]], [[2**63 - 2, 2**62]], [[0, 2**63 - 1]]]
)
def test_ranges_that_lie_apart_are_what_was_said(ranges):
    said = np.array(ranges, np.int64)
    ends = [min(first + count, 2**63 - 1) for first, count in ranges]
    got = apart(said)
    assert got[:, 0].tolist() == [first for first, _ in ranges]
    assert [first + count for first, count in got.tolist()] == ends


@pytest.mark.parametrize("offsets", [[], [4], [4, 5, 6], [4, 6], [1, 2, 3, 7, 8, 20]])
def test_ranges_and_offsets_say_the_same(offsets):
    assert offsets_of(ranges_of(int64s(offsets))).tolist() == offsets
