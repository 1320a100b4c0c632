"""The plug is pulled at random moments. Under synchronous flush no acknowledged record is lost;
under asynchronous flush only a tail is, never something in the middle.

    POWER_LOSS_SEED=7 .venv/bin/pytest integration/faults/power/test_power_loss.py

What counts as acknowledged was said before the plug was pulled. The shutdown is a call to a file
system that goes on running, unlike a machine without power: a ``fdatasync`` that it overtakes may
return success although the journal, and with it the data, is dropped. The bare program of
``bare_writer`` shows that this is the disk's doing: in 400 points it lost nothing that it had said
before the call, and in 9 of them a record whose sync returned 0 during it. A real machine cannot
say anything any more by then.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bare_writer import kept, start_bare_writer, synced
from numbered_writer import config, numbers_in, start_writer
from unplugged_disk import UnpluggedDisk, why_not

from ariane_storage import FlushMode, Store

POINTS_PER_DISK = 10
SEED = int(os.environ.get("POWER_LOSS_SEED", "20130101"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for mounted in tmp_path.glob("*/mounted"):
        # Whatever state a failed test left: nothing stays mounted.
        subprocess.run(["umount", "-l", str(mounted)], check=False, capture_output=True)


@pytest.mark.parametrize("points", [20, 200])
@pytest.mark.parametrize("mode", list(FlushMode))
def test_power_loss(folder: Path, mode: FlushMode, points: int) -> None:
    chance = random.Random(SEED)
    acknowledged_in_all = kept_in_all = 0
    for point in range(points):
        if point % POINTS_PER_DISK == 0:
            disk = UnpluggedDisk(folder / str(point))
            disk.plug_in()
            store_path = disk.mount_point / "store"
        writer = start_writer(store_path, mode, SEED + point)
        for _ in range(chance.randrange(1, 60)):
            if not writer.read_line():
                break
        time.sleep(chance.random() * 0.01)
        writer.read_waiting()
        acknowledged = writer.acknowledged
        disk.pull_the_plug()
        writer.kill()
        disk.unmount()
        disk.plug_in()

        with Store.open(store_path, config(mode)) as store:
            numbers = sorted(numbers_in(store))
            assert not store.damage, f"seed {SEED} point {point}"
            end = store.max_offset
        assert numbers == list(range(len(numbers))), f"a hole: seed {SEED} point {point}"
        assert len(numbers) >= acknowledged, f"lost: seed {SEED} point {point}"
        acknowledged_in_all += acknowledged
        kept_in_all += len(numbers)

        with Store.open(store_path, config(mode)) as store:
            assert store.max_offset == end, "a second recovery changed something"
            assert sorted(numbers_in(store)) == numbers
        if point % POINTS_PER_DISK == POINTS_PER_DISK - 1:
            disk.unmount()
            disk.image.unlink()
    assert acknowledged_in_all > points
    print(f"{mode}: {points} points, {acknowledged_in_all} acknowledged, {kept_in_all} kept")


@pytest.mark.parametrize("points", [10, 200])
def test_the_disk_keeps_what_it_synced_while_there_was_power(folder: Path, points: int) -> None:
    chance = random.Random(SEED)
    disk = UnpluggedDisk(folder / "bare")
    disk.plug_in()
    said_in_all = 0
    for point in range(points):
        path = disk.mount_point / "records"
        said = mmap.mmap(-1, mmap.PAGESIZE)
        pid = start_bare_writer(path, said)
        deadline = time.monotonic() + 30
        while synced(said) < 3:
            assert time.monotonic() < deadline, "the writer does not get anywhere"
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.01)
        said_with_power = synced(said)
        disk.pull_the_plug()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        disk.unmount()
        disk.plug_in()
        assert kept(path) >= said_with_power, f"seed {SEED} point {point}"
        said_in_all += said_with_power
        path.unlink()
    disk.unmount()
    assert said_in_all >= 3 * points
