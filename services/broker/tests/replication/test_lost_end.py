"""The note that a log may lack its end: over starts, and over changes of the flush mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from ariane_broker.following.lost_end import LostEnd
from ariane_storage.state_file import StateFile
from ariane_storage.testing import FaultyDisk

NOTE = Path("/store/machine.json")


@pytest.fixture
def disk():
    disk = FaultyDisk()
    disk.make_folders(NOTE.parent)
    return disk


def started(disk, boot_id, flush_mode="async"):
    return LostEnd(StateFile(NOTE, disk), lambda: boot_id, flush_mode=flush_mode)


def test_a_process_that_only_died_has_lost_nothing(disk):
    assert not started(disk, "one").check(crashed=False)
    assert not started(disk, "one").check(crashed=True)
    assert not started(disk, "two").check(crashed=False)


@pytest.mark.parametrize("crashed", [False, True])
def test_what_power_took_is_not_forgotten_before_the_set_knows(disk, crashed):
    """The first start after it may end before it has reached the database."""
    started(disk, "one").check(crashed=False)
    assert started(disk, "two").check(crashed=True)
    later = started(disk, "two")
    assert later.check(crashed=crashed)
    later.settle()
    assert not started(disk, "two").check(crashed=crashed)


def test_what_counts_is_how_the_process_has_flushed_that_died(disk):
    started(disk, "one", "sync").check(crashed=False)
    assert not started(disk, "two", "async").check(crashed=True)
    assert started(disk, "three", "sync").check(crashed=True)


def test_where_nobody_knows_whether_the_machine_went_on_each_crash_counts(disk):
    started(disk, "").check(crashed=False)
    assert started(disk, "").check(crashed=True)


def test_a_damaged_note_counts_as_a_loss(disk):
    started(disk, "one").check(crashed=False)
    disk.write(NOTE, b"{ }\n")
    assert started(disk, "one").check(crashed=False)
