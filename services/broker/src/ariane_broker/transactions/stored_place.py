"""Where and when a message was stored."""

from __future__ import annotations

from typing import NamedTuple, Self

from ariane_record import RecordFields
from ariane_record.layout import Host


class StoredPlace(NamedTuple):
    """The place and store time of a message; see ``RecordFields``."""

    queue_id: int
    queue_offset: int
    commit_log_offset: int
    store_timestamp_ms: int
    born_host: Host
    store_host: Host
    attempts: int

    @classmethod
    def of(cls, fields: RecordFields) -> Self:
        """Take them from a message that was read."""
        return cls(*(getattr(fields, name) for name in cls._fields))
