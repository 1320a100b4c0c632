"""One end of a connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import crc32

if TYPE_CHECKING:
    from played_world.machines.network import Network
    from played_world.machines.process import Process

HIGH_OCTETS: Final = 64 << 10
"""How much may be under way before whoever writes is told to pause."""

RESET: Final = "connection reset by peer"


class PlayedTransport(asyncio.Transport):
    """What the transport of a socket is to a protocol of asyncio."""

    peer: PlayedTransport
    """The other end."""

    def __init__(
        self,
        network: Network,
        process: Process,
        own_address: tuple[str, int],
        peer_address: tuple[str, int],
    ) -> None:
        super().__init__({"peername": peer_address, "sockname": own_address})
        self.own_address = own_address
        self.process = process
        self.machine = process.machine
        """Where this end is."""
        self._network = network
        self._protocol: asyncio.BufferedProtocol | None = None
        self._high, self._low = HIGH_OCTETS, HIGH_OCTETS >> 2
        self._under_way = 0
        self._arrives_at = 0.0
        self._sent = 0
        """How many pieces were sent; each has its number."""
        self._waiting: deque[tuple[int, bytes]] = deque()
        """What waits here while the way is cut."""
        self._early: dict[int, bytes] = {}
        """What has come before something that was sent earlier, by number."""
        self._come = 0
        """How many pieces have come, without a gap."""
        self._arrived: deque[bytes] = deque()
        self._is_paused = False
        self._is_reading = True
        self._is_closing = False
        self._is_over = False

    def begin(self, make: Callable[[], asyncio.BaseProtocol]) -> None:
        """Give the connection to its protocol."""
        self._protocol = cast("asyncio.BufferedProtocol", make())
        self._protocol.connection_made(self)
        self._read()

    def answer(self, answered: asyncio.Future[PlayedTransport]) -> None:
        """The other end has taken the connection; tell who has asked for it."""
        if self._network.is_cut(self.peer.machine, self.machine) or self.process.is_dead:
            return

        def tell() -> None:
            if answered.done():
                self.abort()
            else:
                answered.set_result(self)

        self.process.loop.call_soon_threadsafe(tell)

    # What a protocol calls.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send octets."""
        if self._is_closing or not len(data):
            return
        octets = bytes(data)
        self._under_way += len(octets)
        if self._under_way > self._high and not self._is_paused and self._protocol is not None:
            self._is_paused = True
            self._protocol.pause_writing()
        for piece in self._network.pieces(octets):
            self._send(piece)

    def writelines(self, list_of_data: Any) -> None:
        """Send octets."""
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """From where on writing is paused, and goes on."""
        self._high = HIGH_OCTETS if high is None else high
        self._low = self._high >> 2 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Octets that are under way."""
        return self._under_way

    def pause_reading(self) -> None:
        """Give the protocol nothing for now."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Give the protocol what has come."""
        self._is_reading = True
        self.process.loop.call_soon(self._read)

    def is_closing(self) -> bool:
        """Whether this end was closed."""
        return self._is_closing

    def close(self) -> None:
        """Send what was written, then end."""
        if not self._is_closing:
            self._is_closing = True
            self._send(b"")
            self.process.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """End at once."""
        if not self._is_over:
            self._is_closing = True
            self.peer.break_later()
            self.process.loop.call_soon(self._lose, None)

    # What the network does.

    def _send(self, octets: bytes) -> None:
        self._sent += 1
        self._carry(self._sent - 1, octets)

    def _carry(self, number: int, octets: bytes) -> None:
        if self._waiting or self._network.is_cut(self.machine, self.peer.machine):
            self._waiting.append((number, octets))
            return
        timeline = self._network.world.timeline
        self._arrives_at = max(self._arrives_at, timeline.now + self._network.latency_s())
        timeline.at(self._arrives_at, self.peer.arrive, number, octets)

    def send_waiting(self) -> None:
        """The way is no longer cut."""
        waiting, self._waiting = self._waiting, deque()
        for piece in waiting:
            self._carry(*piece)

    def arrive(self, number: int, octets: bytes) -> None:
        """A piece has come, or the end of all: read in the order in which they were sent."""
        here, there = self.machine.name, self.peer.machine.name
        self._network.world.timeline.note(f"net {there} {here} {len(octets)} {crc32(octets):08x}")
        if self._network.is_cut(self.peer.machine, self.machine):
            self.peer._waiting.append((number, octets))  # noqa: SLF001 - its other half.
        elif not self.machine.is_up or self._is_over:
            if self.machine.is_up and octets:
                self.peer.break_later()
        else:
            self._early[number] = octets
            while self._come in self._early:
                self._arrived.append(self._early.pop(self._come))
                self._come += 1
            self.process.loop.call_soon_threadsafe(self._read)

    def _read(self) -> None:
        protocol = self._protocol
        while self._arrived and self._is_reading and not self._is_over and protocol is not None:
            octets = self._arrived.popleft()
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

    def was_read(self, count: int) -> None:
        """The other end has read octets of this one."""
        self._under_way -= count
        if self._is_paused and self._under_way <= self._low and not self._is_over:
            self.process.loop.call_soon_threadsafe(self._resume)

    def _resume(self) -> None:
        if self._is_paused and self._protocol is not None and not self._is_over:
            self._is_paused = False
            self._protocol.resume_writing()

    def break_later(self) -> None:
        """Tell this end that the connection is broken, once that has come here."""
        network = self._network
        network.world.timeline.after(network.latency_s(), self._break)

    def _break(self) -> None:
        if self._is_over or self.process.is_dead:
            return
        if self._network.is_cut(self.peer.machine, self.machine):
            return  # It finds out by itself.
        self._is_closing = True
        self.process.loop.call_soon_threadsafe(self._lose, ConnectionResetError(RESET))

    def vanish(self) -> None:
        """The process of this end is no more."""
        self._is_over = self._is_closing = True
        self._protocol = None
        self._network.forget_end(self)
        if self.machine.is_up:
            self.peer.break_later()

    def _lose(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._network.forget_end(self)
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)
