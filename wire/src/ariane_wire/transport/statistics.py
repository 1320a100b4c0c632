"""What a server or channel has done: numbers for gauges and counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from typing import Any

from ariane_wire.protocol.connection import Connection


@dataclass(frozen=True, slots=True)
class Statistics:
    """A snapshot."""

    connections: int
    """Open now."""
    streams: int
    """Calls in work now."""
    waiting_streams: int
    """Of these, those whose octets wait for a window or for the transport."""
    held_octets: int
    """Of messages that are not whole or not read."""
    connections_begun: int
    """Since the beginning; so are all that follow."""
    streams_begun: int
    """Calls."""
    data_octets_sent: int
    """In DATA frames."""
    octets_received: int
    """In all frames."""
    stalls: int
    """How often a sender found a window closed."""

    def __add__(self, other: Statistics) -> Statistics:
        """Of both."""
        return Statistics(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def when_ended(self) -> Statistics:
        """The same without what is open."""
        return replace(self, connections=0, streams=0, waiting_streams=0, held_octets=0)


class Totals:
    """What connections have done that are gone."""

    def __init__(self) -> None:
        self._connections = 0
        self._streams = 0
        self._sent = 0
        self._received = 0
        self._stalls = 0

    def add(self, connection: Connection[Any]) -> None:
        """Count a connection that is gone."""
        self._connections += 1
        self._streams += connection.streams_begun
        self._sent += connection.octets_sent
        self._received += connection.octets_received
        self._stalls += connection.stalls

    def with_open(self, connections: Iterable[Connection[Any]], held_octets: int) -> Statistics:
        """A snapshot, of these and of what is open."""
        live = list(connections)
        return Statistics(
            connections=len(live),
            streams=sum(len(each.streams) for each in live),
            waiting_streams=sum(len(each.first) + len(each.ready) for each in live),
            held_octets=held_octets,
            connections_begun=self._connections + len(live),
            streams_begun=self._streams + sum(each.streams_begun for each in live),
            data_octets_sent=self._sent + sum(each.octets_sent for each in live),
            octets_received=self._received + sum(each.octets_received for each in live),
            stalls=self._stalls + sum(each.stalls for each in live),
        )
