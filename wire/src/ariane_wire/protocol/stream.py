"""One stream: a call as HTTP/2 sees it, whichever end this is."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from ariane_wire.protocol.assembly import Assembly, MessageRefused, no_memory
from ariane_wire.protocol.faults import StreamFault
from ariane_wire.protocol.frames import (
    END_STREAM,
    HEAD,
    HEAD_AND_PREFIX,
    PREFIX,
    PREFIX_OCTETS,
    ErrorCode,
    window_frame,
)
from ariane_wire.protocol.sending import SMALL_OCTETS

if TYPE_CHECKING:
    from ariane_wire.protocol.connection import Connection

_NOTHING: Final[deque[bytes | memoryview]] = deque(maxlen=0)


class Waiter(Protocol):
    """A future of a caller that waits until all is sent."""

    def done(self) -> bool:
        """Whether nobody waits any more."""
        ...

    def set_result(self, result: None, /) -> None:
        """Wake the caller."""


class Stream:
    """The state that both ends keep; subclasses are the calls.

    The defaults stand in the class, because most calls never change them.
    """

    connection: Connection[Any]
    stream_id: int
    send_window: int
    whole_max: int
    """The longest message that is taken in one go, if a frame is just that; -1 once the stream
    needs a closer look."""
    grant_at: int
    """When ``taken`` has come so far, the window is looked at."""
    window: int
    """What the peer may have sent when ``taken`` was last set back."""
    taken = 0
    """Octets that came since we last opened the stream's window."""
    unread = 0
    """Octets of whole messages that nobody has read; they do not open the window."""
    assembly: Assembly | None = None
    length_left: int | None = None
    is_local_closed = False
    is_remote_closed = False
    is_queued = False
    is_gone = False
    pending: deque[bytes | memoryview] = _NOTHING
    """What waits to be sent, in pieces."""
    pending_octets = 0
    ends_after_pending = False
    """Whether the last piece ends our half."""
    trailers: bytes | None = None
    """The header block that ends our half once ``pending`` has left."""
    sent_waiter: Waiter | None = None

    def attach(self, connection: Connection[Any], stream_id: int) -> None:
        """Become a stream of a connection."""
        self.connection = connection
        self.stream_id = stream_id
        self.send_window = connection.peer.window
        self.whole_max = connection.message_octets_max
        self.window = connection.stream_window
        self.grant_at = self.window >> 1

    # What happens to the call; each subclass says what it does then.

    def on_message(self, message: bytes | bytearray, *, compressed: bool) -> None:
        """A message has come."""
        raise NotImplementedError

    def on_end(self) -> None:
        """The peer has ended its half."""
        raise NotImplementedError

    def on_refused(self, refusal: MessageRefused) -> None:
        """The peer sent a message that is not taken."""
        raise NotImplementedError

    def on_reset(self, code: int) -> None:
        """The peer has ended the stream with RST_STREAM; it is gone."""
        raise NotImplementedError

    def on_fault(self, fault: StreamFault) -> None:
        """The peer broke a rule, and we have reset the stream; it is gone."""
        raise NotImplementedError

    def on_lost(self, text: str, *, never_processed: bool) -> None:
        """The connection is gone, or has refused the stream."""
        raise NotImplementedError

    # Receiving.

    def receive(self, octets: bytes | memoryview, at: int, stop: int) -> None:
        """Take a piece of a DATA frame that is not just one message."""
        self.count(stop - at)
        assembly = self.assembly
        if assembly is None:
            connection = self.connection
            assembly = self.assembly = Assembly(connection.message_octets_max, connection.ledger)
        self.whole_max = -1
        try:
            messages = assembly.feed(octets, at, stop)
        except MessageRefused as refusal:
            self.on_refused(refusal)
            return
        if not assembly.is_inside and self.length_left is None:
            self.whole_max = self.connection.message_octets_max
        for message, compressed in messages:
            if self.is_gone:
                return
            self.on_message(message, compressed=compressed)

    def count(self, octets: int) -> None:
        """Octets of DATA have come: compare them with the announced length.

        Raises:
            StreamFault: They are too many.
        """
        if self.length_left is not None:
            self.length_left -= octets
            if self.length_left < 0:
                self._fault(ErrorCode.PROTOCOL_ERROR, "more DATA than content-length says")

    def receive_end(self) -> None:
        """Take the end of the peer's half."""
        if self.length_left:
            self._fault(ErrorCode.PROTOCOL_ERROR, "less DATA than content-length says")
        if self.is_gone or self.is_remote_closed:
            return
        self.is_remote_closed = True
        if self.assembly is not None and self.assembly.is_inside:
            self.on_refused(MessageRefused("the stream ended inside of a message"))
            return
        self.on_end()

    def take(self, octets: int) -> None:
        """Octets of DATA are coming.

        Raises:
            StreamFault: They are more than the window.
        """
        self.taken += octets
        if self.taken > self.window:
            self._fault(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the stream's window")

    def hold(self, octets: int) -> None:
        """A message waits for its reader: as long as it does, its octets do not open the window."""
        ledger = self.connection.ledger
        if not ledger.has_room(octets):
            self.on_refused(no_memory(ledger))
            return
        self.unread += octets
        self.connection.hold(octets)
        self._set_grant_place()

    def release(self, octets: int) -> None:
        """A message has found its reader: the peer may send more."""
        if not self.unread:
            return
        self.unread -= octets
        self.connection.release(octets)
        self._set_grant_place()
        if self.taken >= self.grant_at:
            self.grant()

    def grant(self) -> None:
        """Open the window by what was read.

        Raises:
            StreamFault: The peer sent more than the window.
        """
        if self.taken > self.window:
            self._fault(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the stream's window")
        if self.is_remote_closed or self.is_gone:
            return
        octets = self.taken - self.unread
        if octets > 0:
            self.taken = self.unread
            self.connection.out.append(window_frame(self.stream_id, octets))
            self.connection.carrier.wake()
        self._set_grant_place()

    def _set_grant_place(self) -> None:
        """Have the window opened once half of it is used, beside what nobody has read."""
        window = self.window
        self.grant_at = min(self.unread + (window >> 1), window + 1)

    def _fault(self, code: ErrorCode, text: str) -> None:
        raise StreamFault(self.stream_id, code, text)

    # Sending.

    def send_message(
        self,
        message: bytes | bytearray | memoryview,
        *,
        compressed: bool = False,
        last: bool = False,
    ) -> None:
        """Send a message, or let it wait until it may go; ``last`` ends our half."""
        connection = self.connection
        octets = len(message) + PREFIX_OCTETS
        if (
            octets <= self.send_window
            and octets <= connection.send_window
            and octets <= connection.whole_max
            and not self.pending_octets
            and (octets <= SMALL_OCTETS or not connection.ready)
            and not connection.first
            and not connection.paused
        ):
            self.send_window -= octets
            connection.send_window -= octets
            connection.octets_sent += octets
            connection.out += (
                HEAD_AND_PREFIX.pack(
                    octets << 8, last, self.stream_id, compressed, octets - PREFIX_OCTETS
                ),
                message if type(message) is bytes else memoryview(message),
            )
        else:
            if self.pending is _NOTHING:
                self.pending = deque()
            self.pending.append(PREFIX.pack(compressed, octets - PREFIX_OCTETS))
            if octets > PREFIX_OCTETS:
                self.pending.append(memoryview(message))
            self.pending_octets += octets
            self.ends_after_pending = last
            connection.enqueue(self)
        if last:
            self.is_local_closed = True

    def send_last(self, octets: bytes) -> None:
        """Send octets that are no message, and end our half."""
        self.is_local_closed = True
        self.pending = deque((octets,))
        self.pending_octets = len(octets)
        self.ends_after_pending = True
        self.connection.enqueue(self)

    def end_sending(self) -> None:
        """End our half after what waits, without another message."""
        self.is_local_closed = True
        if self.pending_octets:
            self.ends_after_pending = True
        else:
            self.connection.out.append(HEAD.pack(0, END_STREAM, self.stream_id))

    def send_trailers(self, block: bytes) -> None:
        """End our half with a header block, after what waits."""
        self.is_local_closed = True
        if self.pending_octets:
            self.trailers = block
        else:
            self.connection.send_block(self.stream_id, block, END_STREAM)
            self.on_all_sent()

    def drained(self) -> None:
        """Nothing waits any more."""
        if self.trailers is not None:
            self.connection.send_block(self.stream_id, self.trailers, END_STREAM)
            self.trailers = None
        self.on_all_sent()

    def on_all_sent(self) -> None:
        """All that waited is in ``out``, or will never be."""
        waiter = self.sent_waiter
        if waiter is not None:
            self.sent_waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def drop_pending(self) -> None:
        """Send nothing more of what waits; forget what was collected."""
        if self.pending_octets:
            self.pending = _NOTHING
            self.pending_octets = 0
        self.trailers = None
        if self.assembly is not None:
            self.assembly.drop()
        if self.sent_waiter is not None:
            self.on_all_sent()
