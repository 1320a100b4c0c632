r"""Streams of requests that are answered one by one, each cheaper than a call of its own.

::

    read ---> work ---> at once ---------------> answers ---> write
                  \---> later (a future each) -/

The code that has an answer writes it, if no other is being written: a single request waits for no
turn of the loop. Each request fails by itself, with a status in its answer, and is measured by
itself. The number of requests in work is limited; at the limit nothing is read, which slows the
caller down.

Before the service ends a stream, it answers every request that it has begun. So if a stream ends
with SERVICE_DRAINING, requests without an answer have had no effect.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import grpc
from google.rpc.status_pb2 import Status
from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.calls import Call, current_call
from ariane_servicekit.rpc.error_status import status_of
from ariane_servicekit.rpc.prompt_run import PromptRun

RequestT = TypeVar("RequestT")
ReadT = TypeVar("ReadT")
AnswerT = TypeVar("AnswerT")
RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
AnswerT_co = TypeVar("AnswerT_co", covariant=True)

IN_WORK_MAX: Final = 64
"""The most requests of one stream that are read and not answered yet."""


FIRST_REQUEST_S: Final = 10.0
"""Seconds within which the first request of a stream must arrive: an idle stream would use up one
of the calls that a service accepts at a time."""


async def first_request(reading: Awaitable[ReadT], *, wait_s: float = FIRST_REQUEST_S) -> ReadT:
    """The result of a stream's first read.

    Args:
        reading: The read.
        wait_s: How long it may take, in seconds.

    Raises:
        ServiceError: DEADLINE_PASSED; the caller has sent nothing.
    """
    try:
        async with asyncio.timeout(wait_s):
            return await reading
    except TimeoutError:
        raise ServiceError(
            ErrorReason.ERROR_REASON_DEADLINE_PASSED,
            f"no request came within {wait_s:g} s of the beginning of the stream",
            {"wait_s": f"{wait_s:g}"},
        ) from None


class RequestWorker(Protocol[RequestT_contra, AnswerT_co]):
    """A service's work on the requests of a stream."""

    def work(self, request: RequestT_contra) -> AnswerT_co | Awaitable[AnswerT_co]:
        """Return the answer, or an awaitable of it."""
        ...

    def refusal(self, request: RequestT_contra, status: Status) -> AnswerT_co:
        """The answer to a request that failed."""
        ...


class RequestStreams:
    """The open streams of one method."""

    def __init__(
        self,
        refusal_after_close: Callable[[], ServiceError],
        *,
        in_work_max: int = IN_WORK_MAX,
        first_request_s: float = FIRST_REQUEST_S,
    ) -> None:
        """Start without streams; ``in_work_max`` requests of one stream are in work at a time.

        ``refusal_after_close`` makes the error that ends streams when the service closes. The first
        request of a stream must arrive within ``first_request_s``.
        """
        self._first_request_s = first_request_s
        self._refusal_after_close = refusal_after_close
        self._in_work_max = in_work_max
        self._streams: set[_RequestStream[Any, Any]] = set()

    async def serve(
        self, context: aio.ServicerContext[Any, Any], worker: RequestWorker[Any, Any]
    ) -> None:
        """Answer the requests of a stream until it ends.

        Raises:
            ServiceError: The service closed it.
        """
        call = current_call()
        if call is None:
            raise AssertionError("a stream is a call")
        stream = _RequestStream(
            call, context, worker, self._in_work_max, first_request_s=self._first_request_s
        )
        self._streams.add(stream)
        try:
            await stream.serve()
        finally:
            self._streams.discard(stream)
        if stream.is_closed:
            raise self._refusal_after_close()

    def close(self) -> None:
        """Read no more; streams end as soon as requests in work are answered."""
        for stream in self._streams:
            stream.close()


class _RequestStream(Generic[RequestT, AnswerT]):
    """One stream."""

    def __init__(
        self,
        call: Call,
        context: aio.ServicerContext[Any, Any],
        worker: RequestWorker[RequestT, AnswerT],
        in_work_max: int,
        *,
        first_request_s: float,
    ) -> None:
        self._first_request_s = first_request_s
        self.is_closed = False
        self._call = call
        self._context = context
        self._worker = worker
        self._in_work_max = in_work_max
        self._in_work = 0
        self._room = asyncio.Event()
        self._answers: deque[AnswerT] = deque()
        self._writing = False
        self._failure: BaseException | None = None
        self._news: asyncio.Future[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._working: set[asyncio.Future[AnswerT]] = set()

    async def serve(self) -> None:
        """Read in a task of its own; answers are written by the code that has them."""
        reading = self._reading = asyncio.create_task(self._read_all())
        reading.add_done_callback(self._tell)
        loop = asyncio.get_running_loop()
        try:
            while self._failure is None and (self._in_work or not reading.done()):
                self._news = loop.create_future()
                await self._news
            if self._failure is not None:
                raise self._failure
            if not reading.cancelled():
                reading.result()
        finally:
            reading.cancel()
            for later in self._working:
                later.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await reading

    def close(self) -> None:
        """Stop reading."""
        self.is_closed = True
        if self._reading is not None:
            self._reading.cancel()

    async def _read_all(self) -> None:
        request = await first_request(self._context.read(), wait_s=self._first_request_s)
        while request is not aio.EOF:
            self._in_work += 1
            self._begin(request)
            while self._in_work >= self._in_work_max:
                self._room.clear()
                await self._room.wait()
            request = await self._context.read()

    def _begin(self, request: RequestT) -> None:
        metrics = self._call.metrics
        begin = 0.0 if metrics is None else metrics.begin()
        try:
            answer = self._worker.work(request)
        except Exception as error:  # noqa: BLE001 - any error is of this request alone.
            self._refuse(request, error, begin)
            return
        if isinstance(answer, Awaitable):
            later = asyncio.ensure_future(answer)
            self._working.add(later)
            later.add_done_callback(partial(self._finish, request, begin))
        else:
            self._answer(answer, begin, grpc.StatusCode.OK)

    def _finish(self, request: RequestT, begin: float, later: asyncio.Future[AnswerT]) -> None:
        self._working.discard(later)
        if later.cancelled():  # With the stream.
            return
        error = later.exception()
        if error is None:
            self._answer(later.result(), begin, grpc.StatusCode.OK)
        elif isinstance(error, Exception):
            self._refuse(request, error, begin)

    def _refuse(self, request: RequestT, error: Exception, begin: float) -> None:
        errors = self._call.errors
        if errors is None:
            raise error
        public = errors.refuse(self._call, error)
        self._answer(self._worker.refusal(request, status_of(public)), begin, public.row.code)

    def _answer(self, answer: AnswerT, begin: float, code: grpc.StatusCode) -> None:
        metrics = self._call.metrics
        if metrics is not None:
            metrics.end(begin, self._call.method, code)
        if self._writing:
            self._answers.append(answer)
        else:
            self._write(answer)

    def _write(self, answer: AnswerT) -> None:
        self._writing = True
        PromptRun(self._context.write(answer), self._written)

    def _written(self, failure: BaseException | None) -> None:
        if failure is not None:
            # The stream stays in the state of writing: no more can be written.
            self._failure = failure
            self._tell()
            return
        self._writing = False
        self._in_work -= 1
        self._room.set()
        if self._answers:
            self._write(self._answers.popleft())
        elif not self._in_work:
            self._tell()

    def _tell(self, _: object = None) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
