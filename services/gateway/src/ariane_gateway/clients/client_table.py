"""The living clients of this gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ariane_gateway.clients.client import GatewayClient

SILENCE_S_MAX: Final = 60.0
"""Clients call every 10 s; one that is silent for so long, and has no open stream, is gone."""


class ClientTable:
    """Who was heard of lately, by call or by stream."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._clients: dict[str, GatewayClient] = {}

    def __len__(self) -> int:
        """How many clients there are."""
        return len(self._clients)

    def __iter__(self) -> Iterator[GatewayClient]:
        """The clients, in no particular order."""
        return iter(tuple(self._clients.values()))

    def get(self, client_id: str) -> GatewayClient | None:
        """A client, if it lives."""
        return self._clients.get(client_id)

    def heard(self, client_id: str) -> GatewayClient:
        """Note that a client lives."""
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = GatewayClient(client_id)
        client.last_heard_s = self._monotonic()
        return client

    def leaves(self, client_id: str) -> None:
        """Forget a client that says goodbye."""
        self._clients.pop(client_id, None)

    def forget_silent(self) -> list[GatewayClient]:
        """Forget the clients that are gone, and return them."""
        limit_s = self._monotonic() - SILENCE_S_MAX
        gone = [
            each
            for each in self._clients.values()
            if not each.streams and each.last_heard_s < limit_s
        ]
        for client in gone:
            del self._clients[client.client_id]
        return gone
