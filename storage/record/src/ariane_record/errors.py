"""Errors of records, and of messages that cannot become records.

::

    RecordError
    +-- RecordCorrupted     bytes that should be a record and are not
    +-- BodyDamaged         a compressed body that cannot be decompressed, or grows too large
    +-- CodecMissing        the library that would decompress it is not installed
    +-- WireCorrupted       bytes that should be a message of Protocol Buffers and are not
    +-- (ValueError)
        +-- IllegalColumn     a column that cannot become messages; names it and the row
        +-- IllegalMessageId  a text that is not a message id
        +-- IllegalName       a topic or group name outside the rules
        +-- IllegalProperty   a property or key that the format cannot hold
        +-- RecallHandleIllegal  a text that is not a recall handle
        +-- RecordTooLarge    body, topic or properties over the limits of a record
"""

from __future__ import annotations


class RecordError(Exception):
    """Root of every error of this package."""


class RecordCorrupted(RecordError):
    """Bytes that should be a record and are not."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"record {position}: {reason}")
        self.reason = reason
        """The fault, one short clause."""
        self.position = position
        """The record in the block (0 for the first); 0 for a single record."""


class WireCorrupted(RecordError):
    """Bytes that should be a message of Protocol Buffers and are not."""


class IllegalColumn(RecordError, ValueError):
    """A column that cannot become messages, as a whole or at one row."""

    def __init__(self, column: str, reason: str, row: int | None = None) -> None:
        super().__init__(f"{column}{'' if row is None else f', row {row}'}: {reason}")
        self.column = column
        """The field of a message that it holds: ``body``, ``tag`` and so on."""
        self.reason = reason
        """The fault, one short clause."""
        self.row = row
        """The row, 0 for the first; ``None`` if the type of the column is wrong."""


class BodyDamaged(RecordError):
    """A compressed body that cannot be decompressed, or would grow beyond the limit."""


class CodecMissing(RecordError):
    """The library of a compression format is not installed."""


class IllegalMessageId(RecordError, ValueError):
    """A text that is not a message id."""


class IllegalName(RecordError, ValueError):
    """A topic or group name outside the rules."""


class IllegalProperty(RecordError, ValueError):
    """A property or key that the format cannot hold."""


class RecallHandleIllegal(RecordError, ValueError):
    """A text that is not a recall handle."""


class RecordTooLarge(RecordError, ValueError):
    """A body, topic or properties over the limits of a record."""
