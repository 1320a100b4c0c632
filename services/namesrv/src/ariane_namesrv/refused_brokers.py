"""Brokers that asked to be registered and were refused: for those who look why one is missing.

They are kept for as long as a living broker needs to ask again, and few of them: anybody may ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ariane_namesrv.registration import BrokerKey
from ariane_servicekit import Clock

KEPT_S: Final = 120.0
KEPT_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class RefusedBroker:
    """One of them."""

    key: BrokerKey
    address: str
    cause: str
    refused_at_s: float
    """By monotonic time."""


class RefusedBrokers:
    """Those of the last two minutes, in memory.

    Args:
        clock: Tells how long ago that was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: dict[tuple[BrokerKey, str], RefusedBroker] = {}

    def add(self, key: BrokerKey, address: str, cause: str) -> None:
        """Remember one; the oldest goes when there are too many."""
        self._refused.pop((key, address), None)
        refused = RefusedBroker(key, address, cause, self._clock.monotonic())
        self._refused[key, address] = refused
        while len(self._refused) > KEPT_MAX:
            del self._refused[next(iter(self._refused))]

    def forget(self, key: BrokerKey, address: str) -> None:
        """It is registered now."""
        self._refused.pop((key, address), None)

    def all(self, cluster_name: str = "") -> list[RefusedBroker]:
        """Those of a cluster, or of all, the oldest first."""
        since_s = self._clock.monotonic() - KEPT_S
        return [
            one
            for one in self._refused.values()
            if one.refused_at_s >= since_s and cluster_name in {"", one.key.cluster_name}
        ]
