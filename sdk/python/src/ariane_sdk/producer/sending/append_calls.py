"""Appends to brokers by their addresses: on a stream each, or call by call where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ariane.broker.v1.send_service_pb2 import (
    AppendRecordsResponse,
    AppendResult,
    AppendTableResult,
    StreamAppendsResponse,
)
from ariane_record.layout import ByteBuffer
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.errors import CallError
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_status
from ariane_sdk.producer.sending.append_stream import AppendStream
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.tasks import start_task

STREAMLESS_S: Final = 60.0
"""How long a broker that knows no streams is not asked for one again: it may become a newer one."""

Answer: TypeAlias = Sequence[AppendResult] | AppendTableResult
"""What became of each batch; of those of a table perhaps what became of all."""

Answered: TypeAlias = Callable[[Answer | CallError], None]


class AppendCalls:
    """The streams of one producer."""

    __slots__ = ("_clock", "_connections", "_streamless_until_s", "_streams", "_tasks")

    def __init__(self, connections: Connections, clock: Clock) -> None:
        """Have none.

        Args:
            connections: Where channels come from.
            clock: Tells when to try again.
        """
        self._connections = connections
        self._clock = clock
        self._streams: dict[str, AppendStream[StreamAppendsResponse]] = {}
        self._streamless_until_s: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def takes_tables(self, address: str) -> bool:
        """Whether what is sent to a broker now, in this turn of the loop, may be a table."""
        stream = self._streams.get(address)
        return stream is not None and stream.open and stream.takes_tables

    def begin(
        self,
        address: str,
        parts: Sequence[ByteBuffer],
        *,
        peer: str,
        timeout_s: float,
        answered: Answered,
        awake_s: float = 0.0,
    ) -> None:
        """Have a broker append batches.

        Args:
            address: The broker, "host:port".
            parts: Of an ``AppendRecordsRequest``.
            peer: The broker, for the text of errors.
            timeout_s: How long to wait for the answer.
            answered: Is told what became of each batch, or why nobody knows; not from in here, and
                not after ``close``.
            awake_s: How long the loop does not sleep while the answer is waited for.

        Raises:
            ClientForked: The client was made in a parent process.
        """
        self._connections.check()
        if address in self._streamless_until_s and self._is_streamless(address):
            self._call(address, parts, peer, timeout_s, answered)
            return
        stream = self._streams.get(address)
        if stream is None or not stream.open:
            stream = AppendStream(self._connections.append_stream(address), peer)
            self._streams[address] = stream
        used = stream

        def understand(answer: StreamAppendsResponse | CallError) -> None:
            if isinstance(answer, CallError):
                if used.unknown_method:
                    self._streamless_until_s[address] = self._clock.monotonic_s() + STREAMLESS_S
                    self._call(address, parts, peer, timeout_s, answered)
                else:
                    answered(answer)
                return
            used.takes_tables = answer.takes_tables
            if answer.HasField("error"):
                answered(error_from_status(answer.error, peer=peer))
            else:
                answered(_said(answer))

        stream.send(parts, timeout_s, understand, awake_s=awake_s)

    def close(self) -> None:
        """End all; what is in flight may have been stored."""
        for task in self._tasks:
            task.cancel()
        for stream in self._streams.values():
            stream.close()

    def _is_streamless(self, address: str) -> bool:
        if self._clock.monotonic_s() < self._streamless_until_s[address]:
            return True
        del self._streamless_until_s[address]
        return False

    def _call(
        self,
        address: str,
        parts: Sequence[ByteBuffer],
        peer: str,
        timeout_s: float,
        answered: Answered,
    ) -> None:
        async def call() -> None:
            sent = self._connections.append_records(address, b"".join(parts), timeout_s)
            try:
                answer = await answer_of(sent, peer)
            except CallError as error:
                answered(error)
            else:
                answered(_said(answer))

        task = start_task(call(), "append-call")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _said(answer: AppendRecordsResponse | StreamAppendsResponse) -> Answer:
    """What an answer says of the batches of its request."""
    return answer.table_result if answer.HasField("table_result") else answer.results
