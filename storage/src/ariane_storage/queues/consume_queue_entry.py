"""The entry of a consume queue: the place of a message in the commit log.

::

    0                        8                12                       20
    +------------------------+----------------+------------------------+
    |   commit-log offset    |      size      |       tags code        |
    |          i64           |      i32       |          i64           |
    +------------------------+----------------+------------------------+

Entry n of a queue is the message with queue offset n. The tags code is the hash of the tag as 64
bits, 0 for none; in the delay topic and in the timer topic it is the time of delivery in
milliseconds.

An entry with offset 0 and size 0x7FFFFFFF is a hole: a queue offset without a
message, before the first one of a queue that starts above 0 or where a record was damaged. All
zeros are no entry: there the written part of the file ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

ENTRY: Final = np.dtype(
    [
        ("commit_log_offset", ">i8"),
        ("size", ">i4"),  # Bytes of the record; HOLE_SIZE in a hole.
        ("tags_code", ">i8"),
    ]
)
ENTRY_BYTES: Final = ENTRY.itemsize
HOLE_SIZE: Final = 0x7FFFFFFF

Entries = NDArray[np.void]
"""An array of ``ENTRY``."""


def encoded_entries(
    commit_log_offsets: NDArray[np.int64], sizes: ArrayLike, tag_codes: ArrayLike
) -> bytes:
    """Encode the entries of records.

    Args:
        commit_log_offsets: The start of each record.
        sizes: Bytes of each.
        tag_codes: Tags code of each, or one for all.
    """
    entries = np.empty(len(commit_log_offsets), ENTRY)
    entries["commit_log_offset"] = commit_log_offsets
    entries["size"] = sizes
    entries["tags_code"] = tag_codes
    return entries.tobytes()


encoded_entry: Final = Struct(">qiq").pack
"""Encode one entry: commit-log offset, size, tags code."""


def holes(count: int) -> Entries:
    """Entries for queue offsets without a message."""
    entries = np.zeros(count, ENTRY)
    entries["size"] = HOLE_SIZE
    return entries


def joined(parts: Sequence[Entries]) -> Entries:
    """Join entries, keeping the byte order of the files, which numpy would change."""
    return np.concatenate(parts, dtype=ENTRY)
