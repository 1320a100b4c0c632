"""One row of the table of public errors (``error_table``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from grpc import StatusCode

from ariane.common.v1.error_reason_pb2 import ErrorReason

ERROR_DOMAIN: Final = "ariane.mq"
"""The ``domain`` of every ErrorInfo of ours."""

REASON_PREFIX: Final = "ERROR_REASON_"


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """The meaning of one reason on the wire."""

    reason: ErrorReason.ValueType
    code: StatusCode
    hint: str
    """What the caller can do, as one sentence."""
    retriable: bool = False
    """Whether repeating the same call later, or at another broker, can succeed without a change."""
    outcome_unknown: bool = False
    """Whether the call may have had its effect although it failed."""
    retry_after_ms: int | None = None
    """The wait in RetryInfo unless the error has another. None: no RetryInfo."""
    field: str = ""
    """The request field that BadRequest names unless the error says another."""

    @property
    def name(self) -> str:
        """The reason in ErrorInfo: the reason's name without its prefix."""
        return ErrorReason.Name(self.reason).removeprefix(REASON_PREFIX)
