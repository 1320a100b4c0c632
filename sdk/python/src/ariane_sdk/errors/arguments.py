"""What the application passes and the client refuses, and bodies that cannot be read."""

from __future__ import annotations

from ariane_sdk.errors.root import ArianeError


class IllegalArgument(ArianeError, ValueError):
    """The client itself refuses the call; nothing was sent."""

    reason = "FIELD_INVALID"


class NameIllegal(IllegalArgument):
    """A topic or group name outside the rules."""

    reason = "TOPIC_NAME_ILLEGAL"


class MessageIllegal(IllegalArgument):
    """A message that breaks a rule; it was not sent."""

    reason = "MESSAGE_ILLEGAL"


class MessageTooLarge(MessageIllegal):
    """A body larger than the limit; ``size_bytes`` and ``limit_bytes`` in the metadata."""

    reason = "MESSAGE_TOO_LARGE"


class ColumnIllegal(IllegalArgument):
    """A column of a table, as a whole or in one row, cannot become messages; nothing was sent."""

    reason = "MESSAGE_ILLEGAL"

    def __init__(self, column: str, text: str, row: int | None = None) -> None:
        place = "" if row is None else f", row {row}"
        metadata = {"column": column} | ({} if row is None else {"row": str(row)})
        super().__init__(f"column {column!r}{place}: {text}", metadata=metadata)
        self.column = column
        """Its name in the table."""
        self.row = row
        """Number of the first wrong row, from 0; ``None`` if the column itself is wrong."""


class FilterIllegal(IllegalArgument):
    """A filter expression is invalid."""

    reason = "FILTER_EXPRESSION_INVALID"


class BodyDamaged(ArianeError):
    """A compressed body cannot be decompressed, or would grow beyond the limit."""

    reason = "BODY_DAMAGED"
