"""Appends to brokers by their addresses: on one stream each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ariane.broker.v1.send_service_pb2 import (
    AppendResult,
    AppendTableResult,
    StreamAppendsResponse,
)
from ariane_record.layout import ByteBuffer
from ariane_sdk.errors import CallError
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_status
from ariane_sdk.producer.sending.append_stream import AppendStream

Answer: TypeAlias = Sequence[AppendResult] | AppendTableResult
"""What became of each batch; of those of a table perhaps what became of all."""


class AppendCalls:
    """The streams of one producer."""

    __slots__ = ("_connections", "_streams")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._streams: dict[str, AppendStream[StreamAppendsResponse]] = {}

    def begin(
        self,
        address: str,
        parts: Sequence[ByteBuffer],
        *,
        peer: str,
        timeout_s: float,
        answered: Callable[[Answer | CallError], None],
        awake_s: float = 0.0,
    ) -> None:
        """Have a broker append batches.

        Args:
            address: The broker, "host:port".
            parts: Of a ``StreamAppendsRequest`` without its number.
            peer: The broker, for the text of errors.
            timeout_s: How long to wait for the answer.
            answered: Is told what became of each batch, or why nobody knows; not from in here, and
                not after ``close``.
            awake_s: How long the loop does not sleep while the answer is waited for.

        Raises:
            ClientForked: The client was made in a parent process.
        """
        self._connections.check()
        stream = self._streams.get(address)
        if stream is None or not stream.open:
            stream = AppendStream(self._connections.append_stream(address), peer)
            self._streams[address] = stream

        def understand(answer: StreamAppendsResponse | CallError) -> None:
            if isinstance(answer, CallError):
                answered(answer)
            elif answer.HasField("error"):
                answered(error_from_status(answer.error, peer=peer))
            elif answer.HasField("table_result"):
                answered(answer.table_result)
            else:
                answered(answer.results)

        stream.send(parts, timeout_s, understand, awake_s=awake_s)

    def close(self) -> None:
        """End all; what is in flight may have been stored."""
        for stream in self._streams.values():
            stream.close()
