"""The root of all errors of the client."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_NO_METADATA: Mapping[str, str] = MappingProxyType({})


class ArianeError(Exception):
    """Root of all errors of this package."""

    reason = "UNSPECIFIED"
    """The reason, as a word that never changes: the name of an ``ErrorReason`` of the contract
    without its prefix, or one of the client's own."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        outcome_unknown: bool = False,
        retriable: bool = False,
        retry_after_s: float = 0.0,
        metadata: Mapping[str, str] = _NO_METADATA,
    ) -> None:
        super().__init__(message)
        if reason:
            self.reason = reason
        self.outcome_unknown = outcome_unknown
        """Whether the call may have taken effect nevertheless."""
        self.retriable = retriable
        """Whether the same call may succeed later, or elsewhere."""
        self.retry_after_s = retry_after_s
        """How long the service asks to wait before a retry, in seconds; 0 if it does not say."""
        self.metadata = metadata
        """The numbers and names in the text."""
