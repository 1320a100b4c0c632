"""The file of epochs, and where two histories part."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_storage.errors import StateFileDamaged
from ariane_storage.log.epoch_history import (
    EpochHistory,
    EpochStart,
    common_end,
    decode_history,
    encode_history,
)
from ariane_storage.testing import FaultyDisk, PowerLost

PATH = Path("/store/epochFileCheckpoint")


def history(disk, log_end=1 << 40):
    disk.make_folders(PATH.parent)
    found = EpochHistory(disk, PATH)
    found.load(log_end)
    return found


def test_the_file_is_the_one_of_rocketmq():
    # As its CheckpointFile writes two EpochEntry lines.
    assert encode_history([EpochStart(1, 0), EpochStart(4, 81920)]) == (
        b"2\n173424231\n1-0\n4-81920\n"
    )


def test_lines_of_windows_are_read_too():
    content = encode_history([EpochStart(1, 0)])
    assert decode_history(content) == (EpochStart(1, 0),)
    with pytest.raises(ValueError, match="checksum"):
        decode_history(content.replace(b"1-0", b"1-8"))


def test_epochs_are_there_again_after_a_crash_and_none_beyond_the_end():
    disk = FaultyDisk()
    one = history(disk)
    assert one.latest == 0
    one.begin(1, 0)
    one.begin(3, 500)
    one.begin(4, 900)
    assert history(disk.copy().lose_power(1)).starts == ((1, 0), (3, 500), (4, 900))
    assert history(disk, log_end=700).starts == ((1, 0), (3, 500))
    one.keep_below(500)
    assert history(disk.lose_power(2)).starts == ((1, 0),)


def test_epochs_beyond_the_end_do_not_come_back_when_the_log_has_grown():
    disk = FaultyDisk()
    one = history(disk)
    one.begin(1, 0)
    one.begin(2, 900)
    disk = disk.lose_power(1)
    again = history(disk, log_end=850)
    again.adopt([EpochStart(1, 0)])  # A primary of epoch 1 goes on, and its bytes reach further.
    assert history(disk.lose_power(2), log_end=980).starts == ((1, 0),)


def test_an_epoch_does_not_follow_a_newer_one():
    one = history(FaultyDisk())
    one.begin(3, 0)
    with pytest.raises(ValueError, match="epoch 2 cannot follow epoch 3"):
        one.begin(2, 100)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"1\n2\n1-0\n", b"1\nx\n1-0\n"])
def test_a_damaged_file_is_told(content):
    disk = FaultyDisk()
    history(disk).begin(1, 0)
    disk.write(PATH, content)
    with pytest.raises(StateFileDamaged, match="restore it from a copy"):
        history(disk)


def test_power_lost_while_an_epoch_begins_leaves_the_history_before_or_after():
    for step in range(1, 20):
        disk = FaultyDisk()
        history(disk).begin(1, 0)
        disk.power_fails_at = disk.steps + step
        try:
            history(disk).begin(2, 100)
        except PowerLost:
            found = history(disk.lose_power(step)).starts
            assert found in {((1, 0),), ((1, 0), (2, 100))}
        else:
            assert history(disk.lose_power(step)).latest == 2
            return
    pytest.fail("it never ended")


def test_an_epoch_without_records_is_kept_beside_the_next():
    disk = FaultyDisk()
    one = history(disk)
    one.begin(1, 0)
    one.begin(2, 0)
    one.adopt([EpochStart(1, 0), EpochStart(3, 0)])
    assert history(disk.lose_power(1)).starts == ((1, 0), (3, 0))
    # The records of epoch 1 were never confirmed: whoever has them starts anew.
    assert common_end([EpochStart(1, 0)], 50, one.starts, 90) == 0


def test_where_logs_part():
    old = [EpochStart(1, 0), EpochStart(2, 100)]
    new = [EpochStart(1, 0), EpochStart(2, 100), EpochStart(3, 140)]
    assert common_end(old, 200, new, 300) == 140  # The old primary wrote 60 bytes too many.
    assert common_end(old, 120, new, 300) == 120  # This one was behind.
    assert common_end([EpochStart(1, 0)], 90, new, 300) == 90
    assert common_end([EpochStart(1, 0), EpochStart(4, 50)], 90, new, 300) == 50
    assert common_end([EpochStart(7, 0)], 90, new, 300) is None
    assert common_end([], 0, new, 300) is None


class Log:
    """A log as a list of epochs: the byte at an offset is the epoch that wrote it."""

    def __init__(self, content=()):
        self.content = list(content)

    @property
    def starts(self):
        return [
            EpochStart(epoch, place)
            for place, epoch in enumerate(self.content)
            if not place or self.content[place - 1] != epoch
        ]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(0, 2)), max_size=12))
def test_copies_agree_before_the_common_end(reigns):
    """Each reign: a primary appends, and another copies it; histories find where they agree."""
    logs = [Log(), Log(), Log()]
    for epoch, (primary, count, follower) in enumerate(reigns, start=1):
        log, copy = logs[primary], logs[follower]
        log.content += [epoch] * count
        end = common_end(copy.starts, len(copy.content), log.starts, len(log.content))
        shared = end or 0
        assert copy.content[:shared] == log.content[:shared]
        if end is None:
            assert not copy.content or copy.content[0] != log.content[0]
        copy.content = log.content[: shared + count]
