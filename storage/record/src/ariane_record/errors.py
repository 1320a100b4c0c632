"""What can be wrong with a record, or with what somebody wants to write into one.

::

    RecordError
    +-- RecordCorrupted     bytes that claim to be a record and are not
    +-- BlockFull           the record does not fit into what is left of the block
    +-- (ValueError)
        +-- IllegalMessageId  a text that is no message id
        +-- IllegalName       a topic or group name outside the rules
        +-- IllegalProperty   a property or key that the format cannot carry
        +-- RecordTooLarge    body, topic or properties beyond what a record can hold
"""

from __future__ import annotations


class RecordError(Exception):
    """Root of every error of this package."""


class RecordCorrupted(RecordError):
    """Bytes that claim to be a record and are not.

    Attributes:
        reason: What is wrong, one short clause.
        position: Which record of the block (0 for the first); 0 for a single record.
    """

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"record {position}: {reason}")
        self.reason = reason
        self.position = position


class BlockFull(RecordError):
    """The record does not fit into what is left of the block.

    The block is as it was before: finish it, and add the record to the next one.
    """


class IllegalMessageId(RecordError, ValueError):
    """A text that is no message id."""


class IllegalName(RecordError, ValueError):
    """A topic or group name outside the rules."""


class IllegalProperty(RecordError, ValueError):
    """A property or key that the format cannot carry."""


class RecordTooLarge(RecordError, ValueError):
    """A body, topic or properties beyond what a record can hold."""
