"""Hands the timer topic over to RocketMQ: writes down which records wait, and which are done.

Either broker can read what is parked, but RocketMQ goes by files of its own to know what it has
delivered. So they are written when the broker stops in order. They are never read: what RocketMQ
delivers is in the log (``rocketmq_takings``).

``timercheck`` goes first and comes last: without it RocketMQ delivers what waits, some of it once
more, and loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.timer.rocketmq_timer import (
    LOG_FILE_BYTES,
    MESSAGE,
    PRECISION_MS,
    ROLL_MS,
    ROLLED,
    SLOT,
    WHEEL_SLOTS,
    TimerCheck,
    blank,
    make_units,
    units_per_file,
)
from ariane_storage.disk.disk import Disk
from ariane_storage.log.segment import segment_name


class TimerHandover:
    """RocketMQ's files of the timer topic in a store."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root
        self._check = root / "config" / "timercheck"
        self._log = root / "timerlog"
        self._wheel = root / "timerwheel"

    def write(self, rows: ParkedRows, last: ParkedRows, queue_end: int, now_ms: int) -> None:
        """Tell RocketMQ which records wait.

        Args:
            rows: All waiting records with their due times.
            last: The last record of the timer queue, whether it waits or not; none if it is gone.
            queue_end: The end of that queue.
            now_ms: Milliseconds since the epoch.

        Raises:
            OSError: The disk failed, or is full: then there is no ``timercheck``.
        """
        disk, file_bytes = self._disk, self._file_bytes()
        counter = self._counter()
        disk.remove(self._check)
        disk.sync(folders=[self._check.parent])
        disk.remove(self._wheel)
        disk.remove_folder(self._log)
        begin_ms = now_ms // PRECISION_MS * PRECISION_MS
        log_end = 0
        if len(rows):
            log_end = self._write_waiting(rows, last, begin_ms, file_bytes)
        check = TimerCheck(begin_ms, log_end, queue_end, queue_end, 0, now_ms, counter + 1)
        disk.write(self._check, check.encoded())
        disk.sync(folders=[self._root, self._check.parent])

    def _write_waiting(
        self, rows: ParkedRows, last: ParkedRows, begin_ms: int, file_bytes: int
    ) -> int:
        """Write timer log and wheel; returns where the log ends."""
        # Overdue records go into the slot that RocketMQ reads next, very late ones are rolled.
        slots_ms = (rows.due_ms - 1) // PRECISION_MS * PRECISION_MS
        late = slots_ms - begin_ms >= ROLL_MS
        slots_ms = np.where(late, begin_ms + ROLL_MS // 2, np.maximum(slots_ms, begin_ms))
        order = np.lexsort((rows.queue_offsets, rows.due_ms, slots_ms))
        magics = np.where(late, MESSAGE | ROLLED, MESSAGE)[order]
        rows, slots_ms = rows.take(order), slots_ms[order]
        # RocketMQ goes on in the queue behind the record of the last unit: that of the last record,
        # in a slot which is read no more.
        units, slots = make_units(
            np.concatenate([slots_ms, np.full(len(last), begin_ms - PRECISION_MS)]),
            np.concatenate([magics, np.full(len(last), MESSAGE)]),
            np.concatenate([rows.commit_log_offsets, last.commit_log_offsets]),
            np.concatenate([rows.sizes, last.sizes]),
            now_ms=begin_ms,
            file_bytes=file_bytes,
        )
        self._write_wheel(slots[: len(slots) - len(last)])
        per_file = units_per_file(file_bytes)
        self._disk.make_folders(self._log)
        paths = []
        for number, first in enumerate(range(0, len(units), per_file)):
            path = self._log / segment_name(number * file_bytes)
            paths.append(path)
            self._disk.create_sparse(path, file_bytes)
            file = self._disk.open(path, writable=True)
            try:
                file.write_at(0, units[first : first + per_file].tobytes())
                if first + per_file < len(units):
                    file.write_at(*blank(file_bytes))
            finally:
                file.close()
        self._disk.sync(files=[*paths, self._wheel], folders=[self._log])
        full, rest = divmod(len(units), per_file)
        return full * file_bytes + rest * units.itemsize

    def _write_wheel(self, slots: np.ndarray[tuple[int], np.dtype[np.void]]) -> None:
        self._disk.create_sparse(self._wheel, WHEEL_SLOTS * SLOT.itemsize)
        first, end = int(slots["second"][0]), int(slots["second"][-1]) + 1
        run = np.zeros(end - first, SLOT)
        run[slots["second"].astype(np.int64) - first] = slots
        place = first % WHEEL_SLOTS
        behind = min(len(run), WHEEL_SLOTS - place)
        file = self._disk.open(self._wheel, writable=True)
        try:
            file.write_at(place * SLOT.itemsize, run[:behind].tobytes())
            if behind < len(run):
                file.write_at(0, run[behind:].tobytes())
        finally:
            file.close()

    def _log_files(self) -> Iterable[Path]:
        names = filter(str.isdecimal, self._disk.names(self._log))
        return [self._log / name for name in sorted(names)]

    def _file_bytes(self) -> int:
        sizes = {self._disk.size_of(path) or 0 for path in self._log_files()}
        fitting = [size for size in sizes if units_per_file(size) > 0]
        return max(fitting, default=LOG_FILE_BYTES)

    def _counter(self) -> int:
        try:
            return TimerCheck.decoded(self._disk.read(self._check)).counter
        except (FileNotFoundError, ValueError):
            return 0
