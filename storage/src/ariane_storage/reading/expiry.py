"""Messages that expire: after a time that their producer has set, readers are not given them.

A bit of the system flag says that a message expires at all, so that a read looks at one octet of
each record, by column; the time is a property, milliseconds since the epoch.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import SYSTEM_FLAG_START, ByteBuffer, PropertyName, SystemFlag

_BIT: Final = SystemFlag.EXPIRES >> 8
_OCTET: Final = SYSTEM_FLAG_START + 2
"""Where the bit is: flags are big-endian."""


def may_expire(record: ByteBuffer) -> bool:
    """Whether one record has a time at which it expires."""
    return bool(record[_OCTET] & _BIT)


def has_expired(
    buffer: memoryview,
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    sound: NDArray[np.bool_],
    now_ms: int,
) -> NDArray[np.bool_] | None:
    """Which records have expired; None if none has a time.

    Args:
        buffer: Has the records.
        starts: Position of each, ascending.
        sizes: Bytes of each.
        sound: Which are records; others count as not expired.
        now_ms: The time, milliseconds since the epoch.
    """
    octets = np.frombuffer(buffer, np.uint8)
    places = np.flatnonzero(sound)
    places = places[octets[starts[places] + _OCTET] & _BIT != 0]
    if not len(places):
        return None
    ends = (starts[places] + sizes[places]).tolist()
    records = b"".join(map(buffer.__getitem__, map(slice, starts[places].tolist(), ends)))
    properties = decode_columns(records, sizes[places].astype(np.int32)).properties
    pairs = properties.pair_of_each_row(PropertyName.EXPIRES_AT)
    places, pairs = places[pairs >= 0], pairs[pairs >= 0]
    times = np.fromiter(map(_time, properties.texts(pairs)), np.int64, len(pairs))
    expired = np.zeros(len(starts), np.bool_)
    expired[places[times <= now_ms]] = True
    return expired


def _time(text: str) -> int:
    """A time; what is none is never over."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 1 << 62
