"""The living clients of this gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from ariane_gateway.brokers.portrait import Portrait, Wanted
from ariane_gateway.clients.client import GatewayClient

SILENCE_S_MAX: Final = 60.0
"""Clients call every 10 s; one that is silent for so long, and has no open stream, is gone."""

HEAVY_WEIGHT: Final = 16 << 10
"""Beyond that a client is heavy. Of others there may be as many as there may be streams."""

HEAVY_WEIGHT_MAX: Final = 32 << 20
"""Of all heavy clients together; a quarter of it of those of one user, or of one host where nobody
signs."""

_ENTRY_WEIGHT: Final = 16


class Audience(Protocol):
    """Who is told of clients."""

    def present(self, portraits: Sequence[Portrait], /) -> None:
        """Clients are there, or do something else now."""
        ...

    def gone(self, *, left: Sequence[str] = (), silent: Sequence[str] = ()) -> None:
        """Clients have left in peace, or were not heard of for too long."""
        ...


class ClientTable:
    """Who was heard of lately, by a call or over a stream: either is a sign of life."""

    def __init__(self, monotonic: Callable[[], float], *, clients_max: int) -> None:
        """``clients_max``: further ones are served, and nobody knows that they live."""
        self._monotonic = monotonic
        self._clients_max = clients_max
        self._clients: dict[str, GatewayClient] = {}
        self._heavy = HeavyClients(lambda each: bool(each.streams) or self._knows(each))
        self.audience: Audience | None = None
        """Is told of every change; None: nobody."""

    def __len__(self) -> int:
        """How many clients there are."""
        return len(self._clients)

    @property
    def stream_count(self) -> int:
        """How many streams are open."""
        return sum(len(each.streams) for each in self._clients.values())

    def portraits(self) -> Iterator[Portrait]:
        """All clients, as brokers are told of them."""
        return (each.portrait for each in list(self._clients.values()))

    def find(self, client_id: str) -> GatewayClient | None:
        """A client, if it lives."""
        return self._clients.get(client_id)

    def is_of_another(self, client_id: str, user: str) -> bool:
        """Whether a client lives with an id that is another user's."""
        client = self._clients.get(client_id)
        return client is not None and client.user != user

    def heard(
        self, client_id: str, language: str, version: str, address: str, user: str = ""
    ) -> GatewayClient:
        """Note that a client lives, and who it is.

        The id of a living client belongs to its user: who calls with it as another one is served,
        and neither hears what is said to that client nor changes what is known of it.
        """
        client = self._clients.get(client_id)
        if client is None or client.user != user:
            client = GatewayClient(client_id, language, version, address, user)
            if self._takes(client):
                self._present(client)
        client.last_heard_s = self._monotonic()
        return client

    def opens(self, client: GatewayClient, stream: Callable[[Any], None]) -> None:
        """A client opens a stream; brokers hear of it once it says what it does."""
        client.streams.append(stream)
        self._takes(client)

    def says(self, client: GatewayClient) -> None:
        """Note that a client says something over its stream."""
        client.last_heard_s = self._monotonic()
        self._takes(client)

    def does(
        self,
        client: GatewayClient,
        owner: str,
        *,
        produces: tuple[str, ...] = (),
        consumes: Mapping[str, tuple[Wanted, ...]] | None = None,
    ) -> bool:
        """Keep what a client says instead of what it said; False where there is no room for it.

        Args:
            client: Who says it over its stream.
            owner: Whom it counts for: its user, or its host where nobody signs.
            produces: Topics that it produces to.
            consumes: What it wants, by consumer group.
        """
        consumes = dict(consumes or {})
        if not self._heavy.admit(client, owner, weight_of(produces, consumes)):
            return False
        client.produces, client.consumes = produces, consumes
        return True

    def changed(self, client: GatewayClient) -> None:
        """A client does something else now."""
        if self._knows(client):
            self._present(client)

    def closes(self, client: GatewayClient, stream: Callable[[Any], None]) -> None:
        """A stream of a client ends; the client itself may live on."""
        client.streams.remove(stream)
        if not client.streams and self._knows(client):
            self._present(client)

    def leaves(self, client_id: str, user: str) -> None:
        """Forget a client of a user that says goodbye."""
        client = self._clients.get(client_id)
        if client is not None and client.user == user:
            del self._clients[client_id]
            if self.audience is not None:
                self.audience.gone(left=[client_id])

    def forget_silent(self) -> None:
        """Forget the clients that are gone."""
        limit_s = self._monotonic() - SILENCE_S_MAX
        gone = [
            client_id
            for client_id, client in self._clients.items()
            if not client.streams and client.last_heard_s < limit_s
        ]
        for client_id in gone:
            del self._clients[client_id]
        self._heavy.forget_gone()
        if gone and self.audience is not None:
            self.audience.gone(silent=gone)

    def _takes(self, client: GatewayClient) -> bool:
        """Know a client if there is room and its id is free; return whether it is new.

        What is known of it by calls alone gives way to the one with its stream.
        """
        known = self._clients.get(client.client_id)
        if known is None:
            is_free = len(self._clients) < self._clients_max
        else:
            is_free = known is not client and known.user == client.user and not known.streams
        if is_free:
            self._clients[client.client_id] = client
        return is_free

    def _knows(self, client: GatewayClient) -> bool:
        return self._clients.get(client.client_id) is client

    def _present(self, client: GatewayClient) -> None:
        if self.audience is not None:
            self.audience.present([client.portrait])


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
