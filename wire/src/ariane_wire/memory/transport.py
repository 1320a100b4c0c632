"""Transports without sockets: a pair of them is a connection."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ariane_wire.memory.network import Host, Network

HIGH_WATER_OCTETS: Final = 64 << 10
"""As asyncio's own."""


class MemoryTransport(asyncio.Transport):
    """One end of a connection.

    Octets arrive in order, after the time that the network says, and never within the call that
    has sent them. The peer's end learns of an end as a socket does: after all that was sent,
    if this end was closed; at once, by a ``ConnectionResetError``, if it was aborted.
    """

    peer: MemoryTransport
    """The other end."""

    def __init__(
        self,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        host: Host,
        names: dict[str, Any],
    ) -> None:
        super().__init__(names)
        self.host = host
        """Where this end is."""
        self._network = network
        self._loop = loop
        self._protocol: asyncio.BufferedProtocol | None = None
        self._high = HIGH_WATER_OCTETS
        self._low = HIGH_WATER_OCTETS >> 2
        self._unsent_octets = 0
        """Written here, and not yet read at the other end."""
        self._arrives_s = 0.0
        """When the last octets that are under way arrive."""
        self._under_way: deque[bytes] = deque()
        """To this end: timers that are due at once come in any order, octets do not."""
        self._arrived: deque[bytes] = deque()
        self._is_paused = False
        self._is_reading = True
        self._is_closing = False
        self._is_ended = False

    def begin(self, protocol: asyncio.BufferedProtocol) -> None:
        """The connection is made."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._read()

    # What a protocol calls.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send octets."""
        if self._is_closing or not data:
            return
        octets = bytes(data)
        self._unsent_octets += len(octets)
        if self._unsent_octets > self._high and not self._is_paused and self._protocol is not None:
            self._is_paused = True
            self._protocol.pause_writing()
        for piece in self._network.pieces(self, octets):
            self._send(piece)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """From where on writing is paused, and goes on."""
        self._high = HIGH_WATER_OCTETS if high is None else high
        self._low = self._high >> 2 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Octets that were written here and not read at the other end."""
        return self._unsent_octets

    def pause_reading(self) -> None:
        """Give the protocol nothing more for now."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Give the protocol what comes."""
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._read)

    def is_closing(self) -> bool:
        """Whether this end was closed."""
        return self._is_closing

    def close(self) -> None:
        """Send what was written, then end."""
        if not self._is_closing:
            self._is_closing = True
            self._send(b"")
            if not self._unsent_octets:
                self._loop.call_soon(self._lost, None)

    def abort(self) -> None:
        """End at once; what is under way is lost."""
        self.reset()
        self.peer.reset_later()

    # What the network does.

    def _send(self, octets: bytes) -> None:
        """Let octets arrive at the peer; none of them is the end of all."""
        peer = self.peer
        delay_s = self._network.delay_s(self, len(octets))
        peer._arrives_s = max(peer._arrives_s, self._loop.time() + delay_s)  # noqa: SLF001 - its other half.
        peer._under_way.append(octets)  # noqa: SLF001
        self._loop.call_at(peer._arrives_s, peer._arrive)  # noqa: SLF001

    def _arrive(self) -> None:
        octets = self._under_way.popleft()
        if not self._is_ended:
            self._arrived.append(octets)
            self._read()

    def _read(self) -> None:
        """Give the protocol what has arrived, as far as it reads."""
        while self._arrived and self._is_reading and self._protocol is not None:
            octets = self._arrived.popleft()
            protocol = self._protocol
            if not octets:
                protocol.eof_received()
                self.close()
                return
            buffer = memoryview(protocol.get_buffer(len(octets)))
            count = min(len(buffer), len(octets))
            buffer[:count] = octets[:count]
            if count < len(octets):
                self._arrived.appendleft(octets[count:])
            self.peer.was_read(count)
            protocol.buffer_updated(count)

    def was_read(self, octets: int) -> None:
        """The peer has read octets of this end."""
        self._unsent_octets -= octets
        if self._is_paused and self._unsent_octets <= self._low:
            self._loop.call_soon(self._resume)
        if self._is_closing and not self._unsent_octets:
            self._loop.call_soon(self._lost, None)

    def _resume(self) -> None:
        if self._is_paused and self._protocol is not None and not self._is_ended:
            self._is_paused = False
            self._protocol.resume_writing()

    def reset(self, error: Exception | None = None) -> None:
        """End this end at once, unknown to the peer."""
        self._is_closing = True
        self._loop.call_soon(self._lost, error)

    def vanish(self) -> None:
        """This end is no more, unknown to anybody: its process is gone."""
        self._is_closing = True
        self._is_ended = True
        self._protocol = None
        self._arrived.clear()
        self._network.forget(self)

    def reset_later(self) -> None:
        """The peer is gone: this end hears of it once that has arrived."""
        at_s = self._loop.time() + self._network.delay_s(self.peer, 0)
        self._loop.call_at(at_s, self.reset, ConnectionResetError("connection reset by peer"))

    def _lost(self, error: Exception | None) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._arrived.clear()
        self._network.forget(self)
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)
