"""What a peer did wrong.

::

    Exception
    ├── ConnectionFault   the connection ends with GOAWAY
    └── StreamFault       one stream ends with RST_STREAM
"""

from __future__ import annotations

from ariane_wire.protocol.frames import ErrorCode


class ConnectionFault(Exception):
    """The peer broke a rule, or a limit, of the whole connection."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code = code
        """For the GOAWAY frame."""
        self.text = text
        """For people; goes into the GOAWAY frame, too."""


class StreamFault(Exception):
    """The peer broke a rule of one stream."""

    def __init__(self, stream_id: int, code: ErrorCode, text: str) -> None:
        super().__init__(f"stream {stream_id}: {code.name}: {text}")
        self.stream_id = stream_id
        """Which one."""
        self.code = code
        """For the RST_STREAM frame."""
        self.text = text
        """For people."""
