"""Records of the half messages that were stored last, in memory.

Most transactions end soon after they began: their messages need not be read back from the log.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ariane_broker.transactions.transaction_records import HalfMessage
from ariane_record.single.record_copy import RecordCopy

RECENT_BYTES_MAX: Final = 8 << 20
"""Bytes of memory that are kept, about; older records are in the log only."""

RECORD_BYTES: Final = 512
"""What a record takes besides its body and properties, about: small ones are mostly that."""


class RecentHalves:
    """What the log has at the places of some half messages, as ``copy_at`` of the store says it."""

    def __init__(self) -> None:
        # By transaction, each with its place; oldest first.
        self._kept: OrderedDict[str, tuple[int, RecordCopy]] = OrderedDict()
        self._size_bytes = 0

    def keep(self, half: HalfMessage, record: RecordCopy) -> None:
        """Keep the record of a half message that was just stored."""
        self._pop(half.transaction_id)
        self._kept[half.transaction_id] = half.commit_log_offset, record
        self._size_bytes += _size_of(record)
        while self._size_bytes > RECENT_BYTES_MAX:
            self._pop(next(iter(self._kept)))

    def take(self, half: HalfMessage) -> RecordCopy | None:
        """Return the record of a half message, and forget it; None if it is not here."""
        place, record = self._pop(half.transaction_id)
        return record if place == half.commit_log_offset else None

    def _pop(self, transaction_id: str) -> tuple[int, RecordCopy | None]:
        found = self._kept.pop(transaction_id, None)
        if found is None:
            return -1, None
        self._size_bytes -= _size_of(found[1])
        return found


def _size_of(record: RecordCopy) -> int:
    return RECORD_BYTES + len(record.body) + len(record.properties)
