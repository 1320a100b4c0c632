"""Records of several queues as one set of columns.

A batch costs as much for one message as for a thousand, and a micro-batch reads a few messages of
each of many queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ariane_record.layout import HEADER, HEADER_BYTES
from ariane_sdk import MessageQueue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ariane_record.decoding.columns import RecordColumns

_RAW_HEADER: Final = np.dtype((np.void, HEADER_BYTES))
"""Plain bytes are joined at once; fields would be copied one by one."""


class QueueRecords(NamedTuple):
    """Records of one queue."""

    queue: MessageQueue
    """The queue."""
    records: RecordColumns
    """The records."""


def joined(parts: Sequence[RecordColumns]) -> RecordColumns:
    """The records of all parts, as if they had been decoded together; they are copied.

    Args:
        parts: One or more; a single one is returned as it is.
    """
    if len(parts) == 1:
        return parts[0]
    kind = type(parts[0])
    shifts = np.cumsum([0, *(len(part.records) for part in parts[:-1])])
    shift: NDArray[np.int64] = np.repeat(shifts, list(map(len, parts)))

    def numbers(name: str) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.concatenate([getattr(part, name) for part in parts])
        return found

    def places(name: str) -> NDArray[np.int64]:
        return numbers(name) + shift

    headers = np.concatenate([part.headers.view(_RAW_HEADER) for part in parts])
    return kind(
        b"".join(part.records for part in parts),
        headers=headers.view(HEADER),
        starts=places("starts"),
        sizes=numbers("sizes"),
        body_start=places("body_start"),
        body_length=numbers("body_length"),
        topic_start=places("topic_start"),
        topic_length=numbers("topic_length"),
        properties_start=places("properties_start"),
        properties_length=numbers("properties_length"),
    )
