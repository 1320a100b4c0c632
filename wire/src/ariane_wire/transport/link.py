"""One connection on a transport of asyncio.

All frames of one turn of the loop are one write::

    octets come -> receive -> answers gather in `out` -> one write at the end of the same callback
    a call, a write -> `out` -> wake -> at once if it is large, or was the only one of a turn,
                                        else one write for all at the end of the turn
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from ariane_wire.protocol.reading import WORK_MAX
from ariane_wire.transport.tracing import FrameTrace, is_traced

if TYPE_CHECKING:
    from ariane_wire.protocol.connection import Connection
    from ariane_wire.protocol.stream import Stream

SMALL_READ: Final = 32 << 10
"""Up to here, what came is copied once and cut out of ``bytes``, which is quicker."""

JOIN_OCTETS: Final = 160 << 10
"""Up to here a turn's frames are joined where pieces would each be a call of the system: half the
calls for a message and its head, which is more than the copy costs."""

PROMPT_OCTETS: Final = 2 << 10
"""From here on, a request or a message of its stream leaves a client at once: it costs more than a
write does, and the server works on it while the next one is made. Two calls that left together
would be answered together, and so on for good: one end would wait while the other works."""

VIEW_OCTETS: Final = 32 << 10
"""From here on, a message goes out from where it lies instead of being joined with frames, and an
answer of a stream leaves a server at once: to gather more would save nothing."""

HIGH_WATER_OCTETS: Final = 256 << 10
"""How much waits in the transport before we let it wait in our streams, which are fair."""

CLOSE_WAIT_S: Final = 2.0
"""How long a peer has to take our last frames."""

SCRATCH_OCTETS: Final = 256 << 10
"""The most that is read at once: a connection's turn."""

_VECTORED: Final = sys.version_info >= (3, 12)
"""Whether asyncio's ``writelines`` takes pieces without joining them."""


class Link(asyncio.BufferedProtocol):
    """The protocol of one connection."""

    def __init__(
        self,
        connection: Connection[Any],
        loop: asyncio.AbstractEventLoop,
        *,
        made: Callable[[Link], None] | None = None,
        lost: Callable[[Link, str], None] | None = None,
    ) -> None:
        self.connection = connection
        self.loop = loop
        self.transport: asyncio.Transport | None = None
        """None before and after the connection."""
        self.last_received = 0.0
        """When octets came last, by the loop's clock."""
        self.scratch = _scratch.view
        self.on_lost: list[Callable[[], None]] = []
        """Called when the connection is gone: to stop what watches it."""
        self._made = made
        self._lost = lost
        self._traces: tuple[FrameTrace, FrameTrace] | None = None
        self._is_receiving = False
        self._is_armed = False
        self._is_alone = True
        self._wakes = 0
        self._is_vectored = False
        self._is_held = False
        self._flushed: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] | None = None
        self._abort: asyncio.TimerHandle | None = None
        connection.carrier = self

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER_OCTETS)
        self._is_vectored = _VECTORED or not type(transport).__module__.startswith("asyncio")
        self.last_received = self.loop.time()
        if is_traced(by_option=self.connection.options.trace_frames):
            name = str(transport.get_extra_info("peername") or "peer")
            self._traces = (FrameTrace("<-", name), FrameTrace("->", name))
        if self._made is not None:
            self._made(self)
        self.flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next octets go."""
        del sizehint
        return self.scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Octets have come."""
        self.last_received = self.loop.time()
        octets = self.scratch[:nbytes]
        if self._traces is not None:
            self._traces[0].take(octets)
        self.take(bytes(octets) if nbytes <= SMALL_READ else octets)

    def eof_received(self) -> bool:
        """The peer sends nothing more: gRPC knows no half of a connection."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        text = f"connection lost: {exc}" if exc else "the peer closed the connection"
        self.transport = None
        if self._abort is not None:
            self._abort.cancel()
        self.connection.lose(text)
        self._left()
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        for stop in self.on_lost:
            stop()
        if self._lost is not None:
            self._lost(self, self.connection.ended)

    def pause_writing(self) -> None:
        """The transport has enough."""
        self.connection.paused = True

    def resume_writing(self) -> None:
        """The transport takes more."""
        self.connection.paused = False
        self.flush()

    # What the connection asks for.

    def take(self, octets: bytes | memoryview) -> None:
        """Give octets to the connection, and send what it answers."""
        connection = self.connection
        self._is_receiving = True
        try:
            connection.receive(octets)
        finally:
            self._is_receiving = False
        if not self._is_armed:
            self._wakes = 0  # The turn of what was sent before is over.
        if connection.work >= WORK_MAX and connection.has_more_work:
            self._hold()
        if connection.out or connection.has_more:
            self.flush()

    def wake(self, *, at_once: bool = False) -> None:
        """There is something to send."""
        if at_once:
            self.flush()
            return
        if self._is_receiving:
            return
        self._wakes += 1
        if self._is_armed:
            return
        if self._is_alone:
            self.flush()
            if self._wakes == 1 or self._is_armed:
                return  # The first since octets came. That of a lone call needs no end of the turn.
        self._is_armed = True
        self._wakes = max(1, self._wakes)
        self.loop.call_soon(self._end_turn)

    def flushed(self) -> asyncio.Future[None]:
        """Done once all that waits in the connection has left to the transport."""
        future = self._flushed
        if future is None:
            future = self._flushed = self.loop.create_future()
        return future

    def farewell(self) -> asyncio.Future[None] | None:
        """Done once the connection is gone, where that takes turns of the loop: over TLS.

        A loop that is closed before leaves a socket behind.
        """
        transport = self.transport
        if transport is None or transport.get_extra_info("ssl_object") is None:
            return None
        if self._gone is None:
            self._gone = self.loop.create_future()
        return self._gone

    def flush(self) -> None:
        """Send what there is."""
        connection = self.connection
        transport = self.transport
        if connection.paused or transport is None:
            return
        out = connection.take_out()
        if self._traces is not None:
            self._traces[1].take(b"".join(out))
        if len(out) == 1:
            transport.write(out[0])
        elif out and max(map(len, out)) < VIEW_OCTETS:
            transport.write(b"".join(out))
        elif out:
            self._write(transport, out)
        if connection.after or self._flushed is not None:
            self._left()
        if (connection.first or connection.ready) and connection.can_pump and not self._is_armed:
            self._is_armed = True
            self.loop.call_soon(self._end_turn)

    def end(self, text: str) -> None:
        """Send what there is and close the transport."""
        del text
        transport = self.transport
        if transport is None:
            return
        self.connection.paused = False
        self.flush()
        transport.close()
        self._abort = self.loop.call_later(CLOSE_WAIT_S, transport.abort)

    def _left(self) -> None:
        """All that was sent so far has left."""
        connection = self.connection
        if connection.after:
            for callback in connection.take_after():
                callback()
        future = self._flushed
        if future is not None:
            self._flushed = None
            if not future.done():
                future.set_result(None)

    def _write(self, transport: asyncio.Transport, out: list[bytes | memoryview]) -> None:
        if self._is_vectored:
            transport.writelines(out)
        elif sum(map(len, out)) <= JOIN_OCTETS:
            transport.write(b"".join(out))
        else:
            small: list[bytes | memoryview] = []
            for piece in out:
                if len(piece) < VIEW_OCTETS:
                    small.append(piece)
                    continue
                if small:
                    transport.write(b"".join(small))
                    small = []
                transport.write(piece)
            if small:
                transport.write(b"".join(small))

    def _end_turn(self) -> None:
        self._is_armed = False
        self._is_alone = self._wakes <= 1
        self._wakes = 0
        connection = self.connection
        if connection.has_more:
            self.flush()

    def _hold(self) -> None:
        """Let others have their turn before the rest of what has come."""
        if not self._is_held and self.transport is not None:
            self._is_held = True
            self.transport.pause_reading()
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        transport = self.transport
        if transport is None or self.connection.is_over:
            return
        self._is_held = False
        self.take(b"")
        if not self._is_held and not transport.is_closing():
            transport.resume_reading()


async def left(stream: Stream) -> None:
    """Wait until all that was sent on a stream is the transport's, or the connection is gone.

    Returns without waiting where that is so.
    """
    connection = stream.connection
    while stream.pending_octets and not stream.is_gone:
        waiter = stream.sent_waiter
        if waiter is None:
            waiter = stream.sent_waiter = cast("Link", connection.carrier).loop.create_future()
        # Several may wait for the same.
        await asyncio.shield(cast("asyncio.Future[None]", waiter))
    if connection.out and not connection.is_over:
        await asyncio.shield(cast("Link", connection.carrier).flushed())


class _Scratch(threading.local):
    """Where connections receive.

    What comes is cut up before the callback ends, so that all connections of a thread share one
    piece of memory, and an idle connection has none of its own.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SCRATCH_OCTETS))


_scratch: Final = _Scratch()
