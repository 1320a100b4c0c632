"""What waits to be sent, and in which order it goes.

Frames that may go at once are put into one list, ``out``, which the transport empties once a turn.
Messages that the windows or the transport do not take yet wait in their streams; streams that could
send stand in a ring, ``ready``, and each sends a piece in its turn. Those with little to send stand
in a row of their own, ``first``: a small message does not wait for large ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ariane_wire.protocol.frames import (
    END_STREAM,
    FRAME_OCTETS_MIN,
    HEAD,
    HEADERS,
    WINDOW_DEFAULT,
    headers_frames,
)
from ariane_wire.protocol.settings import PeerSettings

if TYPE_CHECKING:
    from ariane_wire.protocol.stream import Stream

PIECE_OCTETS: Final = 128 << 10
"""What a stream sends in its turn, and the longest message that goes at once."""

SMALL_OCTETS: Final = 16 << 10
"""Up to here a message goes before larger ones: it delays them by little, and they it by much."""

TURN_OCTETS: Final = 512 << 10
"""What a connection sends in one turn of the loop, beside messages that go at once."""


class Carrier(Protocol):
    """What brings the octets of a connection to its peer."""

    def wake(self, *, at_once: bool = False) -> None:
        """There is something to send: send it now, or at the end of this turn of the loop.

        Args:
            at_once: Whether it must be now, because to gather more would save nothing.
        """

    def end(self, text: str) -> None:
        """Send what there is and close the transport."""


class NoCarrier:
    """Stands for a transport where there is none: octets are taken from ``take_out``."""

    def wake(self, *, at_once: bool = False) -> None:
        """Do nothing."""

    def end(self, text: str) -> None:
        """Do nothing."""


class FrameSender:
    """The sending half of a connection."""

    def __init__(self) -> None:
        self.out: list[bytes | memoryview] = []
        """Frames for the transport, in order."""
        self.after: list[Callable[[], None]] = []
        """Called once all of ``out`` has left to the transport, or the connection is gone."""
        self.first: deque[Stream] = deque()
        self.ready: deque[Stream] = deque()
        self.paused = False
        """Whether the transport takes no more for now."""
        self.send_window = WINDOW_DEFAULT
        """Octets of DATA that the peer takes on the whole connection."""
        self.peer = PeerSettings()
        self.carrier: Carrier = NoCarrier()
        self.whole_max = FRAME_OCTETS_MIN
        """The longest message, prefix included, that may go at once in one frame."""
        self.stalls = 0
        self.octets_sent = 0

    def send_block(self, stream_id: int, block: bytes, flags: int) -> None:
        """Send a header block."""
        if len(block) <= FRAME_OCTETS_MIN:
            self.out.append(HEAD.pack(len(block) << 8 | HEADERS, flags | 4, stream_id) + block)
        else:
            limit = self.peer.frame_octets_max
            self.out.append(headers_frames(stream_id, block, limit, flags))

    def enqueue(self, stream: Stream) -> None:
        """Let a stream that has something to send have its turns."""
        if not stream.is_queued:
            stream.is_queued = True
            row = self.first if stream.pending_octets <= SMALL_OCTETS else self.ready
            row.append(stream)

    def take_out(self) -> list[bytes | memoryview]:
        """All that is to be sent in this turn; it is the caller's now."""
        if self.first or self.ready:
            self._pump()
        out = self.out
        self.out = []
        return out

    def take_after(self) -> list[Callable[[], None]]:
        """What to call now that ``out`` has left."""
        after = self.after
        self.after = []
        return after

    @property
    def has_more(self) -> bool:
        """Whether there is something to do at the end of a turn."""
        return bool(self.out or self.first or self.ready or self.after)

    @property
    def can_pump(self) -> bool:
        """Whether another turn would send more."""
        return bool(self.first or self.ready) and self.send_window > 0 and not self.paused

    def _pump(self) -> None:
        """Give each ready stream its turn, until the turn's octets or the window are used up."""
        first, ready = self.first, self.ready
        budget = TURN_OCTETS
        while (first or ready) and budget > 0 and not self.paused:
            if self.send_window <= 0:
                self.stalls += 1
                break
            stream = first.popleft() if first else ready.popleft()
            octets = min(
                stream.pending_octets,
                stream.send_window,
                self.send_window,
                self.peer.frame_octets_max,
                PIECE_OCTETS,
            )
            if octets <= 0:
                # Until its window opens, or for ever if it has ended.
                self.stalls += 1
                stream.is_queued = False
                continue
            budget -= octets
            self._send_piece(stream, octets)
            if stream.pending_octets:
                ready.append(stream)
            else:
                stream.is_queued = False
                stream.drained()

    def _send_piece(self, stream: Stream, octets: int) -> None:
        self.send_window -= octets
        stream.send_window -= octets
        self.octets_sent += octets
        is_last = octets == stream.pending_octets
        ends = is_last and stream.ends_after_pending
        out = self.out
        out.append(HEAD.pack(octets << 8, END_STREAM if ends else 0, stream.stream_id))
        stream.pending_octets -= octets
        pending = stream.pending
        while octets:
            piece = pending[0]
            if len(piece) <= octets:
                out.append(piece)
                octets -= len(piece)
                pending.popleft()
            else:
                view = memoryview(piece)
                out.append(view[:octets])
                pending[0] = view[octets:]
                octets = 0
