"""The files that RocketMQ keeps for the timer topic, as arrays and numbers. All are big-endian.

::

    config/timercheck    4096 bytes
      0 i64 read_ms         slots before this time are delivered
      8 i64 log_end         bytes of the timer log that are flushed
     16 i64 queue_offset    the timer queue is read up to here
     24 i64 master_offset   the same of the master; the lesser of both counts
     32 i64 state, i64 timestamp, i64 counter            version of the data

    timerlog/<start>     files of one length, full of units of 52 bytes
      0 i32 size = 52       4 i64 position of the unit before it in its slot, -1 if none
     12 i32 magic           1 a message, 3 one to be put in the timer queue anew, 4 a note of recall
     16 i64 written_ms     24 i32 delay_ms               their sum is the slot
     28 i64 commit_log_offset, i32 record_size           the parked record
     40 i32 hash of its real topic, i64 reserved
      a file ends with a blank: i32 bytes left, i64 0, i32 magic

    timerwheel           1,209,600 slots of a second, 32 bytes each: at time modulo their number
      0 i64 second          8 i64 first position         16 i64 last position
     24 i32 units          28 i32 magic

At the start RocketMQ goes on in the timer queue behind the record of the last unit of the timer
log; only without a timer log does it go by ``timercheck``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_storage.log.records.fields import Int64s

PRECISION_MS: Final = 1000
LOG_FILE_BYTES: Final = 100 << 20
"""RocketMQ's ``mappedFileSizeTimerLog``, unless there are files that say otherwise."""

WHEEL_SLOTS: Final = 2 * 7 * 86_400
ROLL_MS: Final = 2 * 86_400_000
"""What is due later goes into the timer queue anew before."""

MESSAGE: Final = 1
ROLLED: Final = 2
_CHECK: Final = Struct(">7q")
_CHECK_FILE_BYTES: Final = 4096
_BLANK: Final = Struct(">iqI")
_BLANK_MAGIC: Final = 0xCBD43194

UNIT: Final = np.dtype(
    [
        ("size", ">i4"),
        ("previous", ">i8"),
        ("magic", ">i4"),
        ("written_ms", ">i8"),
        ("delay_ms", ">i4"),
        ("commit_log_offset", ">i8"),
        ("record_size", ">i4"),
        ("topic_hash", ">i4"),
        ("reserved", ">i8"),
    ]
)
SLOT: Final = np.dtype(
    [("second", ">i8"), ("first", ">i8"), ("last", ">i8"), ("units", ">i4"), ("magic", ">i4")]
)

Units = NDArray[np.void]


class TimerCheck(NamedTuple):
    """``timercheck``; see above."""

    read_ms: int
    log_end: int
    queue_offset: int
    master_offset: int
    state: int
    timestamp_ms: int
    counter: int

    @classmethod
    def decoded(cls, content: bytes) -> TimerCheck:
        """Decode a file.

        Raises:
            ValueError: It is too short.
        """
        if len(content) < _CHECK.size:
            raise ValueError(f"{len(content)} bytes, of {_CHECK.size} at least")
        return cls(*_CHECK.unpack_from(content))

    def encoded(self) -> bytes:
        """The file."""
        return _CHECK.pack(*self).ljust(_CHECK_FILE_BYTES, b"\0")


def units_per_file(file_bytes: int) -> int:
    """Units in a file of the timer log, with room for a blank behind them."""
    return (file_bytes - _BLANK.size) // UNIT.itemsize


def blank(file_bytes: int) -> tuple[int, bytes]:
    """The place of the blank of a full file, and its bytes."""
    place = units_per_file(file_bytes) * UNIT.itemsize
    return place, _BLANK.pack(file_bytes - place, 0, _BLANK_MAGIC)


def make_units(
    slots_ms: Int64s,
    magics: Int64s,
    commit_log_offsets: Int64s,
    sizes: Int64s,
    *,
    now_ms: int,
    file_bytes: int,
) -> tuple[Units, NDArray[np.void]]:
    """Units, and the slots of the wheel that lead to them.

    Args:
        slots_ms: The slot of each, ascending.
        magics: Magic of each.
        commit_log_offsets: Of each parked record.
        sizes: Of each.
        now_ms: When they are written.
        file_bytes: Length of a file of the timer log.
    """
    count = len(slots_ms)
    units = np.zeros(count, UNIT)
    positions = positions_of(count, file_bytes)
    firsts = np.flatnonzero(np.diff(slots_ms, prepend=np.iinfo(np.int64).min))
    units["size"] = UNIT.itemsize
    units["previous"][1:] = positions[:-1]
    units["previous"][firsts] = -1
    units["magic"] = magics
    units["written_ms"] = now_ms
    units["delay_ms"] = slots_ms - now_ms
    units["commit_log_offset"] = commit_log_offsets
    units["record_size"] = sizes
    ends = np.append(firsts[1:], count)
    slots = np.zeros(len(firsts), SLOT)
    slots["second"] = slots_ms[firsts] // PRECISION_MS
    slots["first"] = positions[firsts]
    slots["last"] = positions[ends - 1]
    slots["units"] = ends - firsts
    return units, slots


def positions_of(count: int, file_bytes: int) -> Int64s:
    """Where units lie in the timer log."""
    numbers, per_file = np.arange(count), units_per_file(file_bytes)
    positions: Int64s = numbers // per_file * file_bytes + numbers % per_file * UNIT.itemsize
    return positions
