"""Brokers whose registration was refused, for operators who look for a missing broker.

They are kept for as long as a living broker takes to try again, and their number is limited, since
any client may cause them.
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
    """A refused registration."""

    key: BrokerKey
    address: str
    cause: str
    refused_at_s: float
    """When, by monotonic time."""


class RefusedBrokers:
    """The refused registrations of the last two minutes, in memory.

    Args:
        clock: Tells how long ago a refusal was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: dict[tuple[BrokerKey, str], RefusedBroker] = {}

    def add(self, key: BrokerKey, address: str, cause: str) -> None:
        """Remember a refusal; the oldest is dropped if there are too many."""
        self._refused.pop((key, address), None)
        refused = RefusedBroker(key, address, cause, self._clock.monotonic())
        self._refused[key, address] = refused
        while len(self._refused) > KEPT_MAX:
            del self._refused[next(iter(self._refused))]

    def forget(self, key: BrokerKey, address: str) -> None:
        """Forget a refusal: the broker is registered now."""
        self._refused.pop((key, address), None)

    def all(self, cluster_name: str = "") -> list[RefusedBroker]:
        """The refusals of a cluster, or all, oldest first."""
        since_s = self._clock.monotonic() - KEPT_S
        return [
            one
            for one in self._refused.values()
            if one.refused_at_s >= since_s and cluster_name in {"", one.key.cluster_name}
        ]
