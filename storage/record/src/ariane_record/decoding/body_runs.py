"""The bodies of many similar records, without the rest of the records.

A reader that needs only bodies need not get the rest, which is more than half of messages of 128
bytes. Consecutive records of one size have one distance, so one step of numpy gathers all their
bodies, for less than a copy of the records costs. If sizes change from record to record, gathering
gains nothing and is not done.

::

    records   | header | body | rest | header | body | rest | header | longer body | rest |
               ------------- run 0 ----------------------- ---------- run 1 -------------
    bodies    | body | body | longer body |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_record.errors import RecordCorrupted
from ariane_record.layout import (
    HEADER,
    HEADER_BYTES,
    HOST_FLAGS,
    RECORD_BYTES_MIN,
    SYSTEM_FLAG_START,
    SystemFlag,
)

RUN_RECORDS_MIN: Final = 64
"""Runs that are shorter on average cost more than they save: each takes a few steps of numpy."""

_NOT_IN_PLACE: Final = int(HOST_FLAGS | SystemFlag.COMPRESSED)
"""Flags of records whose body is at another place, or is compressed."""

_QUEUE_OFFSET_START: Final = 20
_BODY_LENGTH_START: Final = HEADER_BYTES - HEADER["body_length"].itemsize


class BodyRun(NamedTuple):
    """Consecutive messages of one queue whose records are alike."""

    first_queue_offset: int
    """The queue offset of the first message; the others follow densely."""
    message_count: int
    """The number of messages."""
    record_bytes: int
    """Bytes of each record."""
    body_bytes: int
    """Bytes of each body."""


class GatheredBodies(NamedTuple):
    """Bodies without their records."""

    runs: list[BodyRun]
    """The records, in order."""
    octets: NDArray[np.uint8]
    """The bodies, back to back: uint8[bytes]."""


class _Stretch(NamedTuple):
    """Records of one size, back to back: bytes of a chunk from ``start`` on."""

    chunk: memoryview
    start: int
    record_bytes: int
    record_count: int

    def field(self, kind: str, place: int) -> NDArray[Any]:
        """A field of each record, at one place in all of them."""
        return np.ndarray(
            (self.record_count,), kind, self.chunk, self.start + place, (self.record_bytes,)
        )

    def run(self) -> BodyRun | None:
        """The stretch as a run; None if it is not one."""
        lengths = self.field(">i4", _BODY_LENGTH_START)
        queue_offsets = self.field(">i8", _QUEUE_OFFSET_START)
        first, body_bytes = int(queue_offsets[0]), int(lengths[0])
        if (
            not 0 <= body_bytes <= self.record_bytes - RECORD_BYTES_MIN
            # They ascend: with this distance there is no gap.
            or int(queue_offsets[-1]) - first != self.record_count - 1
            or bool((self.field(">i4", SYSTEM_FLAG_START) & _NOT_IN_PLACE).any())
            or bool((lengths != body_bytes).any())
        ):
            return None
        return BodyRun(first, self.record_count, self.record_bytes, body_bytes)

    def bodies(self, body_bytes: int) -> NDArray[np.uint8]:
        """A view of the bodies: uint8[count, body_bytes]."""
        shape, strides = (self.record_count, body_bytes), (self.record_bytes, 1)
        return np.ndarray(shape, np.uint8, self.chunk, self.start + HEADER_BYTES, strides)


def gather_bodies(chunks: Sequence[memoryview], sizes: NDArray[np.int32]) -> GatheredBodies | None:
    """The bodies of records, if that is cheap.

    Args:
        chunks: Whole records of one queue, their queue offsets ascending; each chunk has at least
            one.
        sizes: Bytes of each record, int32[count], at least ``RECORD_BYTES_MIN``.

    Returns:
        The bodies; ``None``: the records are not alike, or differ from their sizes.

    Raises:
        RecordCorrupted: The chunks do not hold whole records of these sizes.
    """
    changes = np.flatnonzero(sizes[1:] != sizes[:-1]) + 1
    if (len(changes) + 1) * RUN_RECORDS_MIN > len(sizes):
        return None
    if len(chunks) * RUN_RECORDS_MIN > len(sizes):
        chunks = [memoryview(b"".join(chunks))]
    stretches: list[_Stretch] = []
    runs: list[BodyRun] = []
    for stretch in _stretches(chunks, sizes, changes.tolist()):
        run = stretch.run()
        if run is None:
            return None
        stretches.append(stretch)
        runs.append(run)
    octets = np.empty(sum(run.message_count * run.body_bytes for run in runs), np.uint8)
    place = 0
    for stretch, run in zip(stretches, runs, strict=True):
        end = place + run.message_count * run.body_bytes
        octets[place:end].reshape(run.message_count, run.body_bytes)[...] = stretch.bodies(
            run.body_bytes
        )
        place = end
    return GatheredBodies(runs, octets)


def _stretches(
    chunks: Sequence[memoryview], sizes: NDArray[np.int32], changes: Sequence[int]
) -> Iterator[_Stretch]:
    """The stretches of records of one size within a chunk."""
    rest = iter(chunks)
    chunk, place = memoryview(b""), 0
    for first, end in pairwise((0, *changes, len(sizes))):
        record_bytes, left = int(sizes[first]), end - first
        while left:
            if place == len(chunk):
                chunk, place = next(rest, memoryview(b"")), 0
            count = min(left, (len(chunk) - place) // record_bytes)
            if not count:
                raise RecordCorrupted("the chunks do not hold whole records of these sizes")
            yield _Stretch(chunk, place, record_bytes, count)
            place += count * record_bytes
            left -= count
