"""How long a connection may live: handshake, age, idleness, its client's certificate, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

from ariane_wire.options import ServerOptions
from ariane_wire.protocol.faults import ConnectionFault
from ariane_wire.protocol.frames import ErrorCode
from ariane_wire.server.connection import ServerConnection
from ariane_wire.server.identity import Identity, identity
from ariane_wire.transport.certificates import CertificateEnd, certificate_of
from ariane_wire.transport.keepalive import Keepalive
from ariane_wire.transport.link import Link
from ariane_wire.transport.peers import peer_of

AGE_JITTER: Final = 0.1
"""Connections of one age do not all end at once."""


class ConnectionLife:
    """One connection's."""

    def __init__(
        self,
        connection: ServerConnection,
        options: ServerOptions,
        chance: Random,
        number: int,
        peer: str = "",
    ) -> None:
        self.connection = connection
        self.gave_way = False
        """Whether it has lost its place, and ends now."""
        self._proxied_peer = self._peer = peer
        self._options = options
        self._chance = chance
        self._number = number
        self._link: Link | None = None
        self._identity: Identity | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._keepalive: Keepalive | None = None
        self._certificate_end: CertificateEnd | None = None
        self._begun_at_look = -1

    @property
    def identity(self) -> Identity:
        """Who is at the other end."""
        known = self._identity
        if known is None:
            transport = self._link.transport if self._link is not None else None
            known = self._identity = identity(transport, self._number, self._proxied_peer)
        return known

    @property
    def peer(self) -> str:
        """The address of the other end, as ``Identity.peer``."""
        if not self._peer:
            transport = self._link.transport if self._link is not None else None
            self._peer = peer_of(transport, self._number)
        return self._peer

    @property
    def notes(self) -> dict[str, Any]:
        """What the program knows of the other end, ``Identity.notes``; empty if nobody asked."""
        return {} if self._identity is None else self._identity.notes

    def begin(self, link: Link) -> None:
        """The connection is made."""
        self._link = link
        options = self._options
        self._after("handshake", options.handshake_s, self._check_handshake)
        if options.age_max_s is not None:
            spread = 1 + AGE_JITTER * (2 * self._chance.random() - 1)
            self._after("age", options.age_max_s * spread, self._end_of_age)
        if options.idle_max_s is not None:
            self._after("idle", options.idle_max_s, self._check_idle)
        if options.keepalive_time_s is not None:
            self._keepalive = Keepalive(link, options)
        certificate = certificate_of(link.transport)
        if certificate is not None:
            self._certificate_end = CertificateEnd(link.loop, certificate, self._end_of_certificate)

    def close(self) -> None:
        """The connection is gone."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._keepalive is not None:
            self._keepalive.close()
        if self._certificate_end is not None:
            self._certificate_end.close()

    def abort(self) -> None:
        """End the connection at once, whatever it does."""
        if self._link is not None and self._link.transport is not None:
            self._link.transport.abort()

    def end(self, grace_s: float | None) -> None:
        """Drain the connection; after the grace its calls are cancelled."""
        self.drain()
        if grace_s is not None:
            self._after("grace", grace_s, self._end_of_grace)

    def drain(self) -> None:
        """Let the connection end once its calls have."""
        self.connection.drain()
        self._after("drain", self._options.drain_ping_s, self.connection.drain_now)

    def _after(self, what: str, seconds: float, then: Callable[[], None]) -> None:
        if self._link is not None:
            self._timers[what] = self._link.loop.call_later(seconds, then)

    def _check_handshake(self) -> None:
        if not self.connection.settings_seen:
            fault = ConnectionFault(ErrorCode.SETTINGS_TIMEOUT, "no SETTINGS in time")
            self.connection.fail(fault)

    def _end_of_age(self) -> None:
        self.end(self._options.age_grace_s)

    def _end_of_certificate(self) -> None:
        # The certificate proves nobody any longer.
        self.end(self._options.certificate_grace_s)

    def _end_of_grace(self) -> None:
        self.connection.abort_calls()
        self.connection.end("the time of the connection is over")

    def _check_idle(self) -> None:
        connection = self.connection
        if connection.streams or connection.streams_begun != self._begun_at_look:
            self._begun_at_look = connection.streams_begun
            self._after("idle", self._options.idle_max_s or 0, self._check_idle)
        else:
            self.drain()
