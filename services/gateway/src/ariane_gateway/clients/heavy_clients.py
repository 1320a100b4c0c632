"""The clients that say very much, and how much all of them may."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ariane_gateway.brokers.portrait import Wanted
from ariane_gateway.clients.client import GatewayClient

HEAVY_WEIGHT: Final = 16 << 10
"""Beyond that a client is heavy. Of others there may be as many as there may be streams."""

HEAVY_WEIGHT_MAX: Final = 32 << 20
"""Of all heavy clients together; a quarter of it of those of one user, or of one host where nobody
signs."""

_ENTRY_WEIGHT: Final = 16


def weight_of(produces: tuple[str, ...], consumes: Mapping[str, tuple[Wanted, ...]]) -> int:
    """How much that says, about, as brokers weigh it: octets of names and filters."""
    weight = sum(len(topic) + _ENTRY_WEIGHT for topic in produces)
    for group, wanted in consumes.items():
        filters = sum(_octets(each.filter_text) for each in wanted)
        weight += sum(len(each.topic) + _ENTRY_WEIGHT for each in wanted) + filters + len(group)
    return weight


class HeavyClients:
    """Those of which anything is kept, however long ago they said it."""

    def __init__(self, is_kept: Callable[[GatewayClient], bool]) -> None:
        """``is_kept``: whether a client is known or has a stream."""
        self._is_kept = is_kept
        self._owners: dict[GatewayClient, str] = {}

    def admit(self, client: GatewayClient, owner: str, weight: int) -> bool:
        """Let a client weigh so much from now on; False where others leave too little room.

        Args:
            client: Who says it; what it weighed before does not count.
            owner: Whom it counts for: its user, or its host where nobody signs.
            weight: Of all that it says.
        """
        if weight <= HEAVY_WEIGHT:
            self._owners.pop(client, None)
            client.weight = weight
            return True
        self.forget_gone()
        others = [(each.weight, its) for each, its in self._owners.items() if each is not client]
        everybody = sum(each for each, _ in others) + weight
        theirs = sum(each for each, its in others if its == owner) + weight
        if max(4 * theirs, everybody) > HEAVY_WEIGHT_MAX:
            return False
        self._owners[client] = owner
        client.weight = weight
        return True

    def forget_gone(self) -> None:
        """Forget those of which nothing is kept any more."""
        for client in [each for each in self._owners if not self._is_kept(each)]:
            del self._owners[client]


def _octets(text: str) -> int:
    # A single character beyond has all of them take four.
    return len(text) if text.isascii() else 4 * len(text)
