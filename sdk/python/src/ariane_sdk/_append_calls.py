"""Appends to brokers by their addresses: on a stream each, or call by call where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ariane.broker.v1.send_service_pb2 import AppendResult
from ariane_record.layout import ByteBuffer
from ariane_sdk._append_stream import AppendStream
from ariane_sdk._broker_calls import answer_of
from ariane_sdk._clock import Clock
from ariane_sdk._connections import Connections
from ariane_sdk._status import error_from_status
from ariane_sdk.errors import CallError

STREAMLESS_S: Final = 60.0
"""How long a broker that knows no streams is not asked for one again: it may become a newer one."""


class AppendCalls:
    """The streams of one producer."""

    __slots__ = ("_clock", "_connections", "_streamless_until_s", "_streams")

    def __init__(self, connections: Connections, clock: Clock) -> None:
        """Have none.

        Args:
            connections: Where channels come from.
            clock: Tells when to try again.
        """
        self._connections = connections
        self._clock = clock
        self._streams: dict[str, AppendStream] = {}
        self._streamless_until_s: dict[str, float] = {}

    async def append(
        self, address: str, parts: Sequence[ByteBuffer], *, peer: str, timeout_s: float
    ) -> Sequence[AppendResult]:
        """Have a broker append batches.

        Args:
            address: The broker, "host:port".
            parts: Of an ``AppendRecordsRequest``.
            peer: The broker, for the text of errors.
            timeout_s: How long to wait for the answer.

        Returns:
            What became of each batch.

        Raises:
            CallError: As the broker says, or gRPC itself.
        """
        self._connections.check()
        if address in self._streamless_until_s and self._is_streamless(address):
            return await self._call(address, parts, peer, timeout_s)
        stream = self._streams.get(address)
        if stream is None or not stream.open:
            stream = AppendStream(self._connections.append_stream(address), peer)
            self._streams[address] = stream
        try:
            answer = await stream.exchange(parts, timeout_s)
        except CallError:
            if not stream.unknown_method:
                raise
            self._streamless_until_s[address] = self._clock.monotonic_s() + STREAMLESS_S
            return await self._call(address, parts, peer, timeout_s)
        if answer.HasField("error"):
            raise error_from_status(answer.error, peer=peer)
        return answer.results

    def close(self) -> None:
        """End all; what is in flight may have been stored."""
        for stream in self._streams.values():
            stream.close()

    def _is_streamless(self, address: str) -> bool:
        if self._clock.monotonic_s() < self._streamless_until_s[address]:
            return True
        del self._streamless_until_s[address]
        return False

    async def _call(
        self, address: str, parts: Sequence[ByteBuffer], peer: str, timeout_s: float
    ) -> Sequence[AppendResult]:
        call = self._connections.append_records(address, b"".join(parts), timeout_s)
        return (await answer_of(call, peer)).results
