"""Settings that the two ends of a connection tell each other (RFC 9113, section 6.5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ariane_wire.protocol.faults import ConnectionFault
from ariane_wire.protocol.frames import (
    FRAME_OCTETS_LIMIT,
    FRAME_OCTETS_MIN,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    ErrorCode,
)

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

UNLIMITED: Final = 1 << 62


class PeerSettings:
    """What the peer has sent, or the standard's defaults."""

    __slots__ = ("frame_octets_max", "header_octets_max", "streams_max", "window")

    def __init__(self) -> None:
        self.streams_max = UNLIMITED
        """How many streams of ours may be open at once."""
        self.window = WINDOW_DEFAULT
        """Octets that a new stream of ours may send."""
        self.frame_octets_max = FRAME_OCTETS_MIN
        """The longest payload of a frame that the peer takes."""
        self.header_octets_max = UNLIMITED
        """The longest list of header fields that the peer takes."""

    def apply(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Take over what a SETTINGS frame says; numbers that we do not know are ignored.

        Raises:
            ConnectionFault: A value is outside of what the standard allows.
        """
        for number, value in pairs:
            if number == MAX_CONCURRENT_STREAMS:
                self.streams_max = value
            elif number == INITIAL_WINDOW_SIZE:
                if value > WINDOW_MAX:
                    raise ConnectionFault(
                        ErrorCode.FLOW_CONTROL_ERROR, f"initial window of {value} octets"
                    )
                self.window = value
            elif number == MAX_FRAME_SIZE:
                if not FRAME_OCTETS_MIN <= value <= FRAME_OCTETS_LIMIT:
                    raise ConnectionFault(
                        ErrorCode.PROTOCOL_ERROR, f"largest frame of {value} octets"
                    )
                self.frame_octets_max = value
            elif number == MAX_HEADER_LIST_SIZE:
                self.header_octets_max = value
            elif number == ENABLE_PUSH and value > 1:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH of {value}")
