"""RocketMQ's files of the timer topic: they say what waits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.timer import timer_handover
from ariane_broker.delay.timer.rocketmq_timer import (
    LOG_FILE_BYTES,
    ROLL_MS,
    SLOT,
    UNIT,
    WHEEL_SLOTS,
    TimerCheck,
    Units,
    units_per_file,
)
from ariane_broker.delay.timer.timer_handover import TimerHandover
from ariane_storage import OsDisk
from ariane_storage.disk.disk import Disk
from ariane_storage.log.records.fields import Int64s
from ariane_storage.testing import FaultyDisk, PowerLost

FAULTY = Path("/store")
NOW_MS = 1_800_000_000_123
BEGIN_MS = 1_800_000_000_000
SMALL_FILE_BYTES = 4 * UNIT.itemsize + 16 + 51


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    return tmp_path


@pytest.fixture
def disk() -> OsDisk:
    return OsDisk()


@pytest.fixture
def handover(disk: OsDisk, root: Path) -> TimerHandover:
    return TimerHandover(disk, root)


def faulty_disk() -> FaultyDisk:
    """With a short file of the timer log, whose length is kept."""
    disk = FaultyDisk()
    disk.make_folders(FAULTY / "config")
    some_log_file(disk, FAULTY, SMALL_FILE_BYTES)
    return disk


def rows_of(due_ms: list[int], first: int = 0) -> ParkedRows:
    numbers = np.arange(first, first + len(due_ms))
    sizes = np.full(len(due_ms), 200)
    return ParkedRows(numbers, numbers * 1000, sizes, np.array(due_ms, np.int64))


def check_of(disk: Disk, root: Path) -> TimerCheck | None:
    path = root / "config" / "timercheck"
    return None if disk.size_of(path) is None else TimerCheck.decoded(disk.read(path))


def units_in(content: bytes) -> Units:
    units = np.frombuffer(content, UNIT, len(content) // UNIT.itemsize)
    wrong = units["size"] != UNIT.itemsize
    return units[: int(np.argmax(wrong)) if wrong.any() else len(units)]


def slots_of(units: Units) -> Int64s:
    slots: Int64s = units["written_ms"].astype(np.int64) + units["delay_ms"].astype(np.int64)
    return slots


def nothing() -> ParkedRows:
    return rows_of([])


def some_log_file(disk: Disk, root: Path, file_bytes: int) -> None:
    disk.make_folders(root / "timerlog")
    disk.create_sparse(root / "timerlog" / ("0" * 20), file_bytes)


def test_where_nothing_waits_a_check_alone_says_so(
    disk: OsDisk, root: Path, handover: TimerHandover
) -> None:
    some_log_file(disk, root, LOG_FILE_BYTES)
    disk.create_sparse(root / "timerwheel", 99)
    handover.write(nothing(), rows_of([0], 41), 42, NOW_MS)
    assert not disk.is_folder(root / "timerlog")
    assert disk.size_of(root / "timerwheel") is None
    content = disk.read(root / "config" / "timercheck")
    assert len(content) == 4096
    assert TimerCheck.decoded(content) == (BEGIN_MS, 0, 42, 42, 0, NOW_MS, 1)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 9, 40])
def test_units_fill_files_and_slots_lead_to_them(
    disk: OsDisk, root: Path, handover: TimerHandover, count: int
) -> None:
    some_log_file(disk, root, SMALL_FILE_BYTES)
    assert units_per_file(SMALL_FILE_BYTES) == 4
    due_ms = [NOW_MS + 1000 * (number % 3) for number in range(count)]
    rows = rows_of(due_ms, 7)
    handover.write(rows, rows.take(slice(-1, None)), 7 + count, NOW_MS)
    names = disk.names(root / "timerlog")
    assert len(names) == -(-(count + 1) // 4)
    files = [disk.read(root / "timerlog" / name) for name in names]
    assert {len(content) for content in files} == {SMALL_FILE_BYTES}
    for content in files[:-1]:
        assert content[208:224] == (67).to_bytes(4) + bytes(8) + (0xCBD43194).to_bytes(4)
    units = {
        int(name) + place * 52: unit
        for name, content in zip(names, files, strict=True)
        for place, unit in enumerate(units_in(content))
    }
    assert len(units) == count + 1
    last = units.pop(max(units))
    assert last["commit_log_offset"] == (6 + count) * 1000
    assert slots_of(np.array([last]))[0] == BEGIN_MS - 1000, "in a slot that is read no more"
    wheel = np.frombuffer(disk.read(root / "timerwheel"), SLOT)
    assert len(wheel) == WHEEL_SLOTS
    found = {}
    for slot in wheel[np.flatnonzero(wheel["units"])]:
        assert wheel[int(slot["second"]) % WHEEL_SLOTS] == slot
        position, chain = int(slot["last"]), []
        while position != -1:
            chain.append(position)
            unit = units.pop(position)
            found[int(unit["commit_log_offset"])] = int(slot["second"]) * 1000
            position = int(unit["previous"])
        assert (chain[-1], len(chain)) == (slot["first"], slot["units"])
    assert not units
    assert found == {(7 + number) * 1000: BEGIN_MS + 1000 * (number % 3) for number in range(count)}


def test_overdue_waits_in_the_next_slot_and_what_is_far_away_is_rolled(
    disk: OsDisk, root: Path, handover: TimerHandover
) -> None:
    rows = rows_of([NOW_MS - 10**9, NOW_MS + ROLL_MS - 1000, NOW_MS + ROLL_MS + 1000])
    handover.write(rows, rows.take(slice(-1, None)), 3, NOW_MS)
    assert disk.size_of(root / "timerlog" / ("0" * 20)) == LOG_FILE_BYTES
    units = units_in(disk.read(root / "timerlog" / ("0" * 20)))[:-1]
    found = dict(zip(units["commit_log_offset"].tolist(), range(3), strict=True))
    slots, magics = slots_of(units), units["magic"]
    assert (slots[found[0]], magics[found[0]]) == (BEGIN_MS, 1)
    assert (slots[found[1000]], magics[found[1000]]) == (BEGIN_MS + ROLL_MS - 1000, 1)
    assert (slots[found[2000]], magics[found[2000]]) == (BEGIN_MS + ROLL_MS // 2, 3)


def test_the_wheel_goes_round(disk: OsDisk, root: Path, handover: TimerHandover) -> None:
    now_ms = BEGIN_MS - BEGIN_MS % (WHEEL_SLOTS * 1000) + WHEEL_SLOTS * 1000 - 2000
    rows = rows_of([now_ms + 1000 * second for second in range(1, 6)])
    handover.write(rows, rows.take(slice(-1, None)), 5, now_ms)
    wheel = np.frombuffer(disk.read(root / "timerwheel"), SLOT)
    taken = np.flatnonzero(wheel["units"]).tolist()
    assert taken == [0, 1, 2, WHEEL_SLOTS - 2, WHEEL_SLOTS - 1]


def test_without_a_record_of_the_end_the_check_says_how_far(
    disk: OsDisk, root: Path, handover: TimerHandover
) -> None:
    rows = rows_of([NOW_MS + 5000])
    handover.write(rows, nothing(), 9, NOW_MS)
    units = units_in(disk.read(root / "timerlog" / ("0" * 20)))
    assert len(units) == 1


def test_a_disk_that_is_full_leaves_no_check() -> None:
    """Then RocketMQ delivers some messages again, and loses none."""
    disk = faulty_disk()
    handover = TimerHandover(disk, FAULTY)
    handover.write(nothing(), nothing(), 5, NOW_MS)
    disk.space_bytes = 100
    with pytest.raises(OSError, match="space"):
        handover.write(rows_of([NOW_MS] * 9), nothing(), 9, NOW_MS)
    assert check_of(disk, FAULTY) is None


def test_power_loss_at_any_step_leaves_no_check_or_a_whole_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The steps are the same, and this disk keeps all of a sparse file in memory.
    monkeypatch.setattr(timer_handover, "WHEEL_SLOTS", 60)
    rows = rows_of([NOW_MS + 5000 * number for number in range(9)])
    for step in range(1, 60):
        disk = faulty_disk()
        TimerHandover(disk, FAULTY).write(rows_of([NOW_MS] * 3), nothing(), 3, NOW_MS - 9999)
        disk.power_fails_at = disk.steps + step
        try:
            TimerHandover(disk, FAULTY).write(rows, nothing(), 9, NOW_MS)
            ended = True
        except PowerLost:
            ended = False
        check = check_of(disk.lose_power(step), FAULTY)
        assert check is None or check.queue_offset in (3, 9)
        assert not ended or check is not None
        if ended:
            return
    raise AssertionError("it never ended")
