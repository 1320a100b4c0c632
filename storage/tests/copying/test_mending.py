"""Damage that happened while a store was closed: found at the next opening, and mended."""

from __future__ import annotations

import os

import pytest

from ariane_storage import Store
from ariane_storage.copying.log_copy import LogRange
from ariane_storage.testing import block_of, small_config

CONFIG = small_config(segment_bytes=8192)


@pytest.fixture
def copies(tmp_path):
    """The paths of two closed stores with the same log of some segments."""
    one, other = (Store.open(tmp_path / name, CONFIG) for name in ("one", "other"))
    for number in range(40):
        one.append(block_of("loud", [b"%d" % number * 400], keys=[["k"]]), 0)
    place = 0
    while place < one.max_offset:
        content = one.copying.read(place, one.max_offset)
        other.copying.append(place, content)
        place += len(content)
    for store in (one, other):
        store.close()
    return tmp_path / "one", tmp_path / "other"


def segment(path, number):
    return path / "commitlog" / f"{number * 8192:020}"


def later(path):
    """Let a file be written to after the checkpoint, also where the clock is coarse."""
    if path.exists():
        now = path.stat().st_mtime
        os.utime(path, (now + 2, now + 2))


def zeros(path):
    with segment(path, 1).open("r+b") as file:
        file.seek(700)
        file.write(bytes(2000))
    later(segment(path, 1))


def first(path):
    segment(path, 0).unlink()


def middle(path):
    segment(path, 2).unlink()


def read(store):
    return [
        bytes(chunk)
        for offset in range(store.queue_end("loud", 0))
        for chunk in store.read_queue("loud", 0, offset, max_count=1, max_bytes=1).chunks
    ]


@pytest.mark.parametrize("harm", [zeros, first, middle])
def test_what_is_missing_is_found_and_mended_from_another_copy(copies, harm):
    whole, harmed = copies
    with Store.open(whole, CONFIG) as sound:
        wanted = read(sound)
        harm(harmed)
        with Store.open(harmed, CONFIG) as store:
            ranges = store.copying.missing(0)
            assert len(ranges) == 1
            for one in ranges:
                assert sound.copying.is_sound(one)
                assert not store.copying.is_sound(one)
                place = one.begin
                while place < one.end:
                    content = sound.copying.read(place, one.end)
                    store.copying.mend(place, content)
                    place += len(content)
            store.copying.mended(ranges)
        with Store.open(harmed, CONFIG) as store:
            assert store.copying.missing(0) == ()
            assert store.recovery.rebuilt == ("consume queues", "index")
            assert read(store) == wanted
            assert len(store.query_by_key("loud", "k", max_count=100)) == 40
        with Store.open(harmed, CONFIG) as store:
            assert store.recovery.rebuilt == ()


def test_a_range_that_both_copies_miss_is_not_sound_in_either(copies):
    whole, _ = copies
    with Store.open(whole, CONFIG) as store:
        assert not store.copying.is_sound(LogRange(0, store.max_offset + 1))
        with segment(whole, 1).open("r+b") as file:
            file.seek(700)
            file.write(bytes(2000))
        assert not store.copying.is_sound(LogRange(8192, 16384))
        assert store.damage


def test_a_range_that_begins_within_a_record_shows_no_damage(copies):
    """A copy whose end differs asks for what it misses there: its records begin elsewhere."""
    whole, _ = copies
    with Store.open(whole, CONFIG) as store:
        wanted = read(store)
        for begin in (1, 700, 8192 + 700):
            assert store.copying.is_sound(LogRange(begin, begin + 400))
        assert store.damage == ()
        assert read(store) == wanted


def test_a_turned_bit_is_found_by_looking_through_the_log_part_by_part(copies):
    whole, _ = copies
    with Store.open(whole, CONFIG) as store:
        end = store.max_offset
        place, count = store.min_offset, 0
        while place < end:
            place, count = store.copying.check_part(place, end, 1000), count + 1
        assert count > 2
        assert store.copying.missing(0) == ()
    turn_a_bit(whole)
    with Store.open(whole, CONFIG) as store:
        assert store.copying.check_part(0, end, end) >= end
        [damaged] = store.copying.missing(0)
        assert damaged.begin <= 8192 + 700 < damaged.end
        assert store.copying.check_part(end, end, 1) == end


def turn_a_bit(folder):
    with segment(folder, 1).open("r+b") as file:
        file.seek(700)
        [byte] = file.read(1)
        file.seek(700)
        file.write(bytes([byte ^ 4]))
