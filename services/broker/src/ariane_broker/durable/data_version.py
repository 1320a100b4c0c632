"""The version that RocketMQ writes into each of its state files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The number of changes of a state file, and the time of the last one.

    Attributes:
        counter: Grows with every change.
        timestamp_ms: The time of the last change.
        state_version: Epoch of a controller in RocketMQ; kept unchanged.
    """

    counter: int = 0
    timestamp_ms: int = 0
    state_version: int = 0

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> DataVersion:
        """Read ``{"counter": ..., "stateVersion": ..., "timestamp": ...}``."""
        return cls(
            counter=int(document.get("counter", 0)),
            timestamp_ms=int(document.get("timestamp", 0)),
            state_version=int(document.get("stateVersion", 0)),
        )

    def document(self) -> dict[str, int]:
        """The version as written to the file."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp_ms,
        }

    def next(self, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return DataVersion(self.counter + 1, now_ms, self.state_version)
