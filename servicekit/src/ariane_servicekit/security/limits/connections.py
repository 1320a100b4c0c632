"""The connections of one process, counted by host and by user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from ariane_servicekit.security.caller import address_of_peer
from ariane_servicekit.security.limits.meter import ADDRESS, CONNECTIONS, USER
from ariane_servicekit.security.limits.quota_uses import QuotaAmount
from ariane_servicekit.security.limits.quotas import Quotas, quota_exceeded
from ariane_wire import Identity
from ariane_wire.transport.peers import host_of

_COUNTED: Final = "counted-for"
"""Among the notes of a connection: the user that it counts for."""


AMOUNTS_MAX: Final = 100
"""Hosts, and users, whose connections are told: those with most."""


class Connections:
    """Says which connections may come: the ``ConnectionWatch`` of a server."""

    def __init__(self, quotas: Quotas) -> None:
        """Count as many as quotas allow."""
        self.is_stranger: Callable[[Identity], bool] = _nobody_is
        """Whether a client has proved nothing: where a process has as many connections as it may
        have, those of strangers end for others."""
        self._quotas = quotas
        self._from: Counter[str] = Counter()
        self._of: Counter[str] = Counter()

    def opened(self, peer: str) -> bool:
        """Count a new connection of a host, if it may have one more; whether it may."""
        host = _host_of(peer)
        limit = self._quotas.connections_from(host) if host else None
        if limit is not None and self._from[host] >= limit:
            self._quotas.uses.note(CONNECTIONS, ADDRESS, host, limit)
            return False
        self._from[host] += 1
        return True

    def closed(self, peer: str, notes: dict[str, Any]) -> None:
        """A connection is gone."""
        _less(self._from, _host_of(peer))
        if _COUNTED in notes:
            _less(self._of, notes[_COUNTED])

    def take(self, identity: Identity, user: str) -> None:
        """Count a connection for the user who calls on it, once.

        Raises:
            ServiceError: QUOTA_EXCEEDED: the user has as many others.
        """
        present = identity.notes.get(_COUNTED)
        if present == user:
            return
        limit = self._quotas.limit(CONNECTIONS, USER, user)
        if limit is not None and self._of[user] >= limit:
            self._quotas.uses.note(CONNECTIONS, USER, user, limit)
            raise quota_exceeded(CONNECTIONS, USER, user, limit)
        if present is not None:
            _less(self._of, present)
        identity.notes[_COUNTED] = user
        self._of[user] += 1

    def amounts(self) -> Iterator[QuotaAmount]:
        """The connections of users and hosts that have quotas of them, the most first."""
        quotas = self._quotas
        if not quotas.has(CONNECTIONS):
            return
        for host, count in self._from.most_common(AMOUNTS_MAX):
            limit = quotas.connections_from(host) if host else None
            if limit is not None:
                yield QuotaAmount(CONNECTIONS, ADDRESS, host, limit, count)
        for user, count in self._of.most_common(AMOUNTS_MAX):
            limit = quotas.limit(CONNECTIONS, USER, user)
            if limit is not None:
                yield QuotaAmount(CONNECTIONS, USER, user, limit, count)


def _nobody_is(_identity: Identity) -> bool:
    return False


def _host_of(peer: str) -> str:
    """The host of a peer; empty for one without an address."""
    return host_of(peer) if address_of_peer(peer) else ""


def _less(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]
