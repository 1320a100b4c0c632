"""How much a peer may do that costs us and brings nobody forward: counted, never timed.

Each frame that does not carry a call costs one. Calls and their octets give some back. A peer that
has used up its allowance is told to calm down, and its connection ends.
"""

from __future__ import annotations

from typing import Final

from ariane_wire.protocol.faults import ConnectionFault
from ariane_wire.protocol.frames import ErrorCode

IDLE_FRAMES_MAX: Final = 1000
"""PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA and unknown frames beyond those that calls
earned. A peer of good will needs a few at the beginning and one now and then."""
EARNED_BY_CALL: Final = 8
OCTETS_PER_FRAME: Final = 256
"""So many octets of the connection, either way, earn one idle frame."""

RESETS_SPARE: Final = 200
"""Calls that the client gave up while we were at work on them, in one turn of the loop, beyond as
many as it may have open at a time. Each turn and each answer forgives one."""

UNREAD_FRAMES_MAX: Final = 10
"""Frames that wait for a client to read, for each call that it may have open: who asks and does not
read has an answer for each of its questions."""

FAULTY_STREAMS_MAX: Final = 100
"""Streams that the peer broke a rule on, for the whole life of a connection."""

CONTINUATIONS_MAX: Final = 64
"""CONTINUATION frames of one header block."""


class Allowance:
    """One connection's."""

    __slots__ = ("_earned", "_faulty", "_idle", "_resets_max", "_unread_max", "resets")

    def __init__(self, streams_max: int) -> None:
        """Begin.

        Args:
            streams_max: Calls that the peer may have open; 0 for a server, which has none.
        """
        self._unread_max = streams_max * UNREAD_FRAMES_MAX
        self._idle = 0
        self._earned = 0
        self.resets = 0
        """Calls that were given up, and are not forgiven."""
        self._resets_max = streams_max + RESETS_SPARE
        self._faulty = 0

    def spend(self, what: str, count: int, *, calls: int, octets: int) -> None:
        """Frames came that carry no call.

        Args:
            what: Which frames, for people.
            count: How many.
            calls: Calls that the connection had so far.
            octets: Octets that it had so far, either way.

        Raises:
            ConnectionFault: There were too many.
        """
        earned = calls * EARNED_BY_CALL + octets // OCTETS_PER_FRAME
        self._idle = max(0, self._idle - (earned - self._earned)) + count
        self._earned = earned
        if self._idle > IDLE_FRAMES_MAX:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"too many frames: {what}")

    def reset(self) -> None:
        """The peer gave a call up that we were at work on.

        Raises:
            ConnectionFault: It has done so too often.
        """
        self.resets += 1
        if self.resets > self._resets_max:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many calls are given up")

    def unread(self, frames: int) -> None:
        """So many frames wait for the peer, whose transport takes no more.

        Raises:
            ConnectionFault: It asks, and does not listen.
        """
        if frames > self._unread_max > 0:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "answers that nobody reads")

    def forgive(self) -> None:
        """A turn of the loop has passed, or a call was answered."""
        if self.resets:
            self.resets -= 1

    def fault(self) -> None:
        """The peer broke a rule of a stream.

        Raises:
            ConnectionFault: It has done so too often.
        """
        self._faulty += 1
        if self._faulty > FAULTY_STREAMS_MAX:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many faulty streams")
