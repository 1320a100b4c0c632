"""Errors of records, and of messages that cannot become records.

::

    RecordError
    +-- RecordCorrupted     bytes that claim to be a record and are not
    +-- BlockFull           the record does not fit into the rest of the block
    +-- BodyDamaged         a compressed body that cannot be decompressed, or grows too large
    +-- CodecMissing        the library that would decompress it is not installed
    +-- WireCorrupted       bytes that claim to be a message of Protocol Buffers and are not
    +-- (ValueError)
        +-- IllegalColumn     a column that cannot become messages; names it and the row
        +-- IllegalMessageId  a text that is no message id
        +-- IllegalName       a topic or group name outside the rules
        +-- IllegalProperty   a property or key that the format cannot carry
        +-- RecallHandleIllegal  a text that names no delayed message
        +-- RecordTooLarge    body, topic or properties beyond what a record can hold
"""

from __future__ import annotations


class RecordError(Exception):
    """Root of every error of this package."""


class RecordCorrupted(RecordError):
    """Bytes that claim to be a record and are not.

    Attributes:
        reason: The fault, one short clause.
        position: Which record of the block (0 for the first); 0 for a single record.
    """

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"record {position}: {reason}")
        self.reason = reason
        self.position = position


class WireCorrupted(RecordError):
    """Bytes that claim to be a message of Protocol Buffers and are not."""


class BlockFull(RecordError):
    """The record does not fit into the rest of the block.

    The block is as it was before: finish it, and add the record to the next one.
    """


class IllegalColumn(RecordError, ValueError):
    """A column that cannot become messages, as a whole or at one row.

    Attributes:
        column: The field of a message that it holds: ``body``, ``tag`` and so on.
        reason: The fault, one short clause.
        row: Which row, 0 for the first; ``None`` when its type is wrong.
    """

    def __init__(self, column: str, reason: str, row: int | None = None) -> None:
        super().__init__(f"{column}{'' if row is None else f', row {row}'}: {reason}")
        self.column = column
        self.reason = reason
        self.row = row


class BodyDamaged(RecordError):
    """A compressed body that cannot be decompressed, or would grow beyond the limit."""


class CodecMissing(RecordError):
    """The library of a compression format is not installed."""


class IllegalMessageId(RecordError, ValueError):
    """A text that is no message id."""


class IllegalName(RecordError, ValueError):
    """A topic or group name outside the rules."""


class IllegalProperty(RecordError, ValueError):
    """A property or key that the format cannot carry."""


class RecallHandleIllegal(RecordError, ValueError):
    """A text that names no delayed message."""


class RecordTooLarge(RecordError, ValueError):
    """A body, topic or properties over the limits of a record."""
