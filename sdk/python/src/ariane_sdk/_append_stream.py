"""One stream of appends to one broker: a round trip on it costs half of a call.

A request that gets no answer in time retires its stream: later ones go by a new one, and the old
one ends with the last that still waits on it. When a stream breaks, it is as if each call on it had
failed in the same way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, cast

from grpc import StatusCode
from grpc.aio import EOF, AioRpcError, StreamStreamCall

from ariane.broker.v1.send_service_pb2 import StreamAppendsResponse
from ariane_record.layout import ByteBuffer
from ariane_sdk._append_wire import number_part
from ariane_sdk._status import error_from_rpc
from ariane_sdk._tasks import start_task
from ariane_sdk.errors import CallError, DeadlinePassed, RequestTooLarge


class _Waiting(NamedTuple):
    """Who waits for an answer."""

    answer: asyncio.Future[StreamAppendsResponse]
    size_bytes: int


class AppendStream:
    """A stream; lives on one event loop.

    Attributes:
        open: Whether it takes requests.
        unknown_method: Whether it ended because the broker knows no such streams.
    """

    __slots__ = (
        "_call",
        "_ended",
        "_loop",
        "_numbers",
        "_outbox",
        "_peer",
        "_room",
        "_tasks",
        "_waiting",
        "open",
        "unknown_method",
    )

    def __init__(self, call: StreamStreamCall[bytes, StreamAppendsResponse], peer: str) -> None:
        """Begin.

        Args:
            call: The call, which takes encoded requests.
            peer: Whom it is to, for the text of errors.
        """
        self.open = True
        self.unknown_method = False
        self._call = call
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._outbox: deque[bytes] = deque()
        self._room: asyncio.Future[None] | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._ended: CallError | None = None
        self._tasks = (
            start_task(self._read_all(), "append-answers"),
            start_task(self._write_all(), "append-requests"),
        )

    async def exchange(
        self, parts: Sequence[ByteBuffer], timeout_s: float
    ) -> StreamAppendsResponse:
        """Send one request, and wait for its answer.

        Args:
            parts: Of an ``AppendRecordsRequest``.
            timeout_s: How long to wait.

        Raises:
            CallError: There is none.
        """
        number = next(self._numbers)
        request = b"".join((*parts, number_part(number)))
        answer: asyncio.Future[StreamAppendsResponse] = self._loop.create_future()
        self._waiting[number] = _Waiting(answer, len(request))
        self._outbox.append(request)
        self._wake_writer()
        timer = self._loop.call_later(timeout_s, self._expire, answer, timeout_s)
        try:
            return await answer
        finally:
            timer.cancel()
            self._waiting.pop(number, None)
            if not self.open and not self._waiting:
                self.close()

    def close(self) -> None:
        """End it; what is in flight may have been stored."""
        self.open = False
        for task in self._tasks:
            task.cancel()
        self._call.cancel()

    def _expire(self, answer: asyncio.Future[StreamAppendsResponse], timeout_s: float) -> None:
        self.open = False
        if not answer.done():
            answer.set_exception(
                DeadlinePassed(
                    f"{self._peer}: no answer within {timeout_s:g} s",
                    outcome_unknown=True,
                    retriable=True,
                )
            )

    def _wake_writer(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def _write_all(self) -> None:
        try:
            while True:
                while self._outbox:
                    await self._call.write(self._outbox.popleft())
                self._room = self._loop.create_future()
                await self._room
        except (AioRpcError, asyncio.InvalidStateError):
            return  # The stream is over; who reads hears why.

    async def _read_all(self) -> None:
        waiting = self._waiting
        error: CallError
        try:
            while (answer := await self._call.read()) is not EOF:
                # Without its stubs gRPC tells no types.
                answer = cast("StreamAppendsResponse", answer)
                waited = waiting.get(answer.request_number)
                if waited is not None and not waited.answer.done():
                    waited.answer.set_result(answer)
            error = CallError(f"{self._peer}: ended its stream", outcome_unknown=True)
        except AioRpcError as ended:
            self.unknown_method = ended.code() is StatusCode.UNIMPLEMENTED
            error = error_from_rpc(ended, peer=self._peer)
        except Exception as failure:  # noqa: BLE001 - whatever it is, who waits must be told.
            error = CallError(f"{self._peer}: {failure}", outcome_unknown=True)
        self._end(error)

    def _end(self, error: CallError) -> None:
        self.open = False
        for waited in self._waiting.values():
            if not waited.answer.done():
                waited.answer.set_exception(self._error_for(waited, error))
        self._tasks[1].cancel()

    def _error_for(self, waited: _Waiting, error: CallError) -> CallError:
        """What the end of the stream means for one request: it may be the fault of another."""
        others = len(self._waiting) > 1
        if not others or not isinstance(error, RequestTooLarge):
            return error
        if error.metadata.get("size_bytes") == str(waited.size_bytes):
            return error
        text = f"{self._peer}: another request was too large for it"
        return CallError(text, retriable=True, outcome_unknown=True)
