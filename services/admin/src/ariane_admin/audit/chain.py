"""The chain of the audit trail: hashing records, and finding breaks. Pure functions.

::

    sha256 of record n = SHA-256( sha256 of record n-1 | JSON list of the fields of record n )

The first record follows 32 zero bytes. The JSON is ASCII without spaces, fields in the order of
``AuditRecord``. A record that is altered, missing or moved breaks the chain. A chain that was
rewritten as a whole can be recognised only by a hash that was noted elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

FIRST_PREVIOUS: Final = bytes(32)
"""The hash before the first record."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """The begin or the end of a change, with the fields that are hashed."""

    sequence: int
    """Place in the chain, from 1."""
    entry_id: str
    """The id of the change."""
    ended: bool
    """Whether this is the end of the change; else its begin."""
    time_ms: int
    """The time, milliseconds since 1970."""
    user: str
    """The authenticated user."""
    claimed_user: str
    """The user as the caller claims."""
    source_address: str
    """The address of the caller."""
    method: str
    """The method that was called."""
    resource_name: str
    """The resource to change."""
    request_json: str
    """The request; of begins."""
    before_json: str
    """The resource before; of begins."""
    after_json: str
    """The resource afterwards; of ends."""
    outcome: int
    """``AuditOutcome`` of the contract."""
    failure_reason: str
    """The reason of a failure; of ends."""
    failure_message: str
    """The same in words."""


@dataclass(frozen=True, slots=True)
class Break:
    """A break of a chain."""

    sequence: int
    """The first record that does not fit."""
    finding: str
    """The fault, in words."""


def record_sha256(previous: bytes, record: AuditRecord) -> bytes:
    """The hash of a record that follows another, 32 bytes."""
    values = [getattr(record, field.name) for field in fields(record)]
    text = json.dumps(values, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(previous + text.encode("ascii")).digest()


def find_break(
    previous: bytes, first_sequence: int, records: Iterable[tuple[AuditRecord, bytes]]
) -> Break | None:
    """The first record of a stretch that does not fit, or None.

    Args:
        previous: The hash of the record before the stretch.
        first_sequence: The place at which the stretch must begin.
        records: The stretch in order, each record with the hash that is stored beside it.
    """
    expected = first_sequence
    for record, stored in records:
        if record.sequence != expected:
            return Break(expected, f"record {expected} is missing; {record.sequence} comes next")
        computed = record_sha256(previous, record)
        if computed != stored:
            return Break(
                record.sequence,
                f"record {record.sequence}, or the one before it, is not as it was written",
            )
        previous = computed
        expected += 1
    return None
