"""What a peer did wrong.

::

    Exception
    ├── ConnectionFault   the connection ends with GOAWAY
    └── StreamFault       one stream ends with RST_STREAM
"""

from __future__ import annotations

from ariane_wire.protocol.frames import ErrorCode


class ConnectionFault(Exception):
    """The peer broke a rule, or a limit, of the whole connection.

    Attributes:
        code: For the GOAWAY frame.
        text: For people; goes into the GOAWAY frame, too.
    """

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code = code
        self.text = text


class StreamFault(Exception):
    """The peer broke a rule of one stream.

    Attributes:
        stream_id: Which one.
        code: For the RST_STREAM frame.
        text: For people.
    """

    def __init__(self, stream_id: int, code: ErrorCode, text: str) -> None:
        super().__init__(f"stream {stream_id}: {code.name}: {text}")
        self.stream_id = stream_id
        self.code = code
        self.text = text
