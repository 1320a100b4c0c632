"""The frames between parent and worker, over one socket.

Every frame begins with eight bytes, and all numbers are little-endian::

    0       1               4                8
    +-------+---------------+----------------+----------------------------- - -
    | kind  |   (zero)      |  u32 length    |  payload
    +-------+---------------+----------------+----------------------------- - -

    parent to worker
      MODULE   u64 fuel for a message | the module
      BATCH    u32 count | i32 size of each record | the records, back to back

    worker to parent
      LOCKED       nothing: the jail is shut, and was tried
      UNAVAILABLE  UTF-8: why it cannot be shut
      READY        nothing: the module is loaded
      INVALID      UTF-8: why it is not a filter
      MASK         a byte for each record, 1 to deliver it and 0 to leave it out
      RAISED       UTF-8: what the filter raised or did, and at which record
      CORRUPT      UTF-8: why the batch is invalid; the parent's fault

The records are those of the commit log (``ariane_record.layout``), unchanged.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

HEAD: Final = Struct("<BxxxI")
MODULE_HEAD: Final = Struct("<Q")
BATCH_HEAD: Final = Struct("<I")

TEXT_BYTES_MAX: Final = 2048
"""The longest text of a filter that is read."""


class Kind(IntEnum):
    """Kinds of frames."""

    MODULE = 1
    BATCH = 2
    LOCKED = 16
    UNAVAILABLE = 17
    READY = 18
    INVALID = 19
    MASK = 20
    RAISED = 21
    CORRUPT = 22


TEXTS: Final = frozenset({Kind.UNAVAILABLE, Kind.INVALID, Kind.RAISED, Kind.CORRUPT})


def text_frame(kind: Kind, text: str) -> bytes:
    """A frame with a text for people."""
    payload = text.encode("utf-8", "replace")[:TEXT_BYTES_MAX]
    return HEAD.pack(kind, len(payload)) + payload
