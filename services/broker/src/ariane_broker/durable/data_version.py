"""The version that RocketMQ writes into each of its state files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_NUMBER_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The number of changes of a state file, and the time of the last one."""

    counter: int = 0
    """Grows with every change."""
    timestamp_ms: int = 0
    """The time of the last change."""
    state_version: int = 0
    """Epoch of a controller in RocketMQ; kept unchanged."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> DataVersion:
        """Read ``{"counter": ..., "stateVersion": ..., "timestamp": ...}``.

        Raises:
            ValueError: A number has more than 64 bits.
        """
        names = ("counter", "timestamp", "stateVersion")
        numbers = [int(document.get(name, 0)) for name in names]
        if any(not -_NUMBER_MAX <= number <= _NUMBER_MAX for number in numbers):
            raise ValueError("its version has a number of more than 64 bits")
        return cls(*numbers)

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
