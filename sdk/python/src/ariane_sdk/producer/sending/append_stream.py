"""One stream of requests to one broker: a round trip on it costs half as much as a call.

No step waits for a turn of the loop of its own: the sender writes its request itself, unless
another is being written, and the reader hands the answer on. One timer watches over all requests.

A request without an answer in time retires its stream: later requests use a new stream, and the old
one ends after its last answer. When a stream breaks, each request on it fails as a call would.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from grpc.aio import EOF, AioRpcError, StreamStreamCall

from ariane_record.layout import ByteBuffer
from ariane_sdk.errors import CallError, DeadlinePassed, RequestTooLarge
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.producer.sending.append_wire import number_part
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task


class NumberedAnswer(Protocol):
    """An answer that names its request."""

    @property
    def request_number(self) -> int:
        """The number of the request."""
        ...


AnswerT = TypeVar("AnswerT", bound=NumberedAnswer)


class _Waiting(NamedTuple, Generic[AnswerT]):
    """A request that waits for its answer."""

    answered: Callable[[AnswerT | CallError], None]
    size_bytes: int
    timeout_s: float
    deadline_s: float


Ended: TypeAlias = Callable[[BaseException | None], None]
"""Called at the end with the error, or None."""


class PromptRun:
    """A coroutine that starts at once: its code up to the first wait runs in the caller.

    A task would start in the next turn of the loop, and a single message would wait for that. Only
    for coroutines that are never cancelled and never ask for their task.
    """

    __slots__ = ("_coroutine", "_ended")

    def __init__(self, coroutine: Coroutine[Any, Any, object], ended: Ended) -> None:
        """Run up to the first wait; a coroutine that does not wait has ended then."""
        self._coroutine = coroutine
        self._ended = ended
        self._step()

    def _step(self, _: object = None) -> None:
        try:
            waited = self._coroutine.send(None)
        except StopIteration:
            self._ended(None)
        except BaseException as error:  # noqa: BLE001 - as a task does: the error is passed on.
            self._ended(error)
        else:
            if waited is None:  # A bare yield, as in ``asyncio.sleep(0)``: other tasks run.
                asyncio.get_running_loop().call_soon(self._step)
                return
            # The protocol between futures and tasks: this confirms the wait.
            waited._asyncio_future_blocking = False  # noqa: SLF001 - the same.
            waited.add_done_callback(self._step)


class AppendStream(Generic[AnswerT]):
    """A stream to one broker; it lives on one event loop.

    Attributes:
        open: Whether the stream takes requests.
    """

    __slots__ = (
        "_alarm",
        "_call",
        "_loop",
        "_numbers",
        "_outbox",
        "_peer",
        "_reading",
        "_waiting",
        "_writing",
        "open",
    )

    def __init__(self, call: StreamStreamCall[bytes, AnswerT], peer: str) -> None:
        self.open = True
        self._call = call
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._outbox: deque[bytes] = deque()
        self._writing = False
        self._waiting: dict[int, _Waiting[AnswerT]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._reading = start_task(self._read_all(), "append-answers")

    @property
    def idle(self) -> bool:
        """Whether no request waits for its answer."""
        return not self._waiting

    def send(
        self,
        parts: Sequence[ByteBuffer],
        timeout_s: float,
        answered: Callable[[AnswerT | CallError], None],
        *,
        awake_s: float = 0.0,
    ) -> None:
        """Send one request.

        Args:
            parts: The request, still without its number.
            timeout_s: How long to wait for the answer.
            answered: Called once with the answer or an error; never from within this method, and
                not after ``close``.
            awake_s: For how long the loop does not sleep while the answer is awaited.
        """
        number = next(self._numbers)
        request = b"".join((*parts, number_part(number)))
        deadline_s = self._loop.time() + timeout_s
        self._waiting[number] = _Waiting(answered, len(request), timeout_s, deadline_s)
        self._watch(deadline_s)
        if self._writing:
            self._outbox.append(request)
        else:
            self._write(request)
        if awake_s:
            self._stay_awake(number, self._loop.time() + awake_s)

    def close(self) -> None:
        """End the stream; requests in flight may have been executed."""
        self.open = False
        self._waiting.clear()
        self._outbox.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        self._reading.cancel()
        self._call.cancel()

    def _stay_awake(self, number: int, until_s: float) -> None:
        """Keep the loop from sleeping until a request is answered, at most until a given time.

        Being put to sleep and woken by the system takes longer than the broker's work.
        """
        if number in self._waiting and self._loop.time() < until_s:
            self._loop.call_soon(self._stay_awake, number, until_s)

    def _watch(self, deadline_s: float) -> None:
        """Set the timer so that late requests are noticed at their deadline."""
        alarm = self._alarm
        if alarm is not None:
            if alarm.when() <= deadline_s:
                return
            alarm.cancel()
        self._alarm = self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        self._alarm = None
        # The loop's clock is coarser than a timer: a request whose timer rang is due.
        now_s = self._loop.time() + 0.001
        late = [number for number, each in self._waiting.items() if each.deadline_s <= now_s]
        if late:
            self.open = False
        for number in late:
            timeout_s = self._waiting[number].timeout_s
            text = f"{self._peer}: no answer within {timeout_s:g} s"
            self._hand_on(number, DeadlinePassed(text, outcome_unknown=True, retriable=True))
        if self._waiting:
            self._watch(min(each.deadline_s for each in self._waiting.values()))

    def _hand_on(self, number: int, answer: AnswerT | CallError) -> None:
        """Hand an answer to its request, if that still waits."""
        waited = self._waiting.pop(number, None)
        if waited is not None:
            waited.answered(answer)
        if not self.open and not self._waiting:
            self.close()

    def _write(self, request: bytes) -> None:
        self._writing = True
        PromptRun(self._call.write(request), self._written)

    def _written(self, error: BaseException | None) -> None:
        if error is not None:
            # The stream is over and keeps its writing state; the reader gets the reason.
            if not isinstance(error, AioRpcError | asyncio.InvalidStateError | CancelledError):
                logger.error("%s: a request was not written", self._peer, exc_info=error)
            return
        self._writing = False
        if self._outbox:
            self._write(self._outbox.popleft())

    async def _read_all(self) -> None:
        error: CallError
        try:
            while (answer := await self._call.read()) is not EOF:
                # grpcio comes without types for this.
                answer = cast("AnswerT", answer)
                self._hand_on(answer.request_number, answer)
            error = CallError(f"{self._peer}: ended its stream", outcome_unknown=True)
        except AioRpcError as ended:
            error = error_from_rpc(ended, peer=self._peer)
        except Exception as failure:  # noqa: BLE001 - waiting senders need every error.
            error = CallError(f"{self._peer}: {failure}", outcome_unknown=True)
        self._end(error)

    def _end(self, error: CallError) -> None:
        self.open = False
        others = len(self._waiting) > 1
        for number, waited in list(self._waiting.items()):
            self._hand_on(number, self._error_for(waited, error) if others else error)
        self.close()

    def _error_for(self, waited: _Waiting[AnswerT], error: CallError) -> CallError:
        """The error of one request when the stream ends, which another request may have caused."""
        if not isinstance(error, RequestTooLarge):
            return error
        if error.metadata.get("size_bytes") == str(waited.size_bytes):
            return error
        text = f"{self._peer}: another request was too large for it"
        return CallError(text, retriable=True, outcome_unknown=True)
