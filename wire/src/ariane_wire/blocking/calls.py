"""Calls as threads see them: futures, and iterators of responses.

An event of each call wakes the threads when something happens on the loop. Requests are encoded and
responses decoded by the caller's thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, Final, Self

import grpc
from grpc import StatusCode

from ariane_wire.blocking.loop_thread import THREAD
from ariane_wire.client import stream_call
from ariane_wire.client.call import ClientCall
from ariane_wire.client.request_stream import RequestStream
from ariane_wire.client.unary_call import UnaryResponse

_RELEASE_OCTETS: Final = 64 << 10
"""So much is read before the loop is asked to open the window: it is woken seldom, and long before
the first window of a stream is used up."""

_END: Final = object()


class BlockingCall(grpc.Call, grpc.Future):  # type: ignore[type-arg]  # Not generic when run.
    """A call that another thread waits for."""

    def __init__(self, call: ClientCall) -> None:
        self._call = call
        self._ended = ended = threading.Event()
        self._headed = headed = threading.Event()

        def end(_: object) -> None:
            headed.set()
            ended.set()

        # Holds the events, not this: who drops this gives the call up.
        call.add_done_callback(end)

    def _until(self, event: threading.Event, timeout: float | None = None) -> None:
        if not event.wait(timeout):
            raise grpc.FutureTimeoutError

    # As a future.

    def cancel(self) -> bool:
        """End the call; from whichever thread."""
        if self._ended.is_set() or THREAD.has_ended:
            return False
        THREAD.call(self._call.cancel)
        return True

    def cancelled(self) -> bool:
        """Whether the call ended as cancelled."""
        return self._call.cancelled()

    def running(self) -> bool:
        """Whether the call is in work."""
        return not self._ended.is_set()

    def done(self) -> bool:
        """Whether the call is over."""
        return self._ended.is_set()

    def result(self, timeout: float | None = None) -> Any:
        """The response.

        Raises:
            CallFailed: The call ended with another status than OK.
            grpc.FutureTimeoutError: It is not over in time.
            grpc.FutureCancelledError: This side has cancelled it.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.response()

    def wait_result(self) -> Any:
        """The response, however long it takes.

        Raises:
            CallFailed: The call ended with another status than OK.
        """
        self._ended.wait()
        call = self._call
        if call.code_ is not StatusCode.OK:
            raise call.failure()
        return self.response()

    def response(self) -> Any:
        """The response of a call that went well: itself, where responses are a stream."""
        call = self._call
        return call.result() if isinstance(call, UnaryResponse) else self

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What ``result`` would raise."""
        self._until(self._ended, timeout)
        call = self._call
        if call.code_ is StatusCode.OK:
            return None
        if call.is_cancelled:
            raise grpc.FutureCancelledError
        return call.failure()

    def traceback(self, timeout: float | None = None) -> Any:
        """Where the error came from: nowhere in this process."""
        error = self.exception(timeout)
        return None if error is None else error.__traceback__

    def add_done_callback(self, fn: Callable[[Any], None]) -> None:
        """Call back when the call is over, on the loop's thread or at once."""
        THREAD.call(self._call.add_done_callback, lambda _: fn(self))

    # As a call.

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call back when the call is over; False if it is."""
        if self._ended.is_set():
            return False
        self.add_done_callback(lambda _: callback())
        return True

    def is_active(self) -> bool:
        """Whether the call is in work."""
        return not self._ended.is_set()

    def time_remaining(self) -> float | None:  # type: ignore[override]  # None without one, as grpcio's.
        """Seconds until the deadline; None without one."""
        return self._call.time_remaining()

    def initial_metadata(self) -> Any:
        """The metadata of the response's head."""
        if not self._headed.is_set():
            THREAD.call(self._watch_head)
            self._headed.wait()
        head = self._call.head
        return head.metadata if head is not None else ()

    def _watch_head(self) -> None:
        task = self._call.channel.loop.create_task(self._call.until_head())
        task.add_done_callback(lambda _: self._headed.set())

    def trailing_metadata(self) -> Any:
        """The metadata of the trailers."""
        self._ended.wait()
        return self._call.trailing

    def code(self) -> grpc.StatusCode:
        """The status."""
        self._ended.wait()
        return self._call.code_ or StatusCode.UNKNOWN

    def details(self) -> str:
        """The text of the status."""
        self._ended.wait()
        return self._call.details_

    def debug_error_string(self) -> str:
        """The status in one line."""
        return f"{self.code()}: {self.details()}"

    def __del__(self) -> None:
        """Cancel what nobody can read any more."""
        call = getattr(self, "_call", None)
        if call is not None and call.code_ is None:
            call.channel.abandon(call)


class QueuedResponses(stream_call.ResponseStream):
    """A call whose responses another thread reads."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.queue: SimpleQueue[Any] = SimpleQueue()

    def on_message(self, message: bytes | bytearray, *, compressed: bool) -> None:
        """A response has come."""
        if self.head is None:
            self._fail(StatusCode.INTERNAL, "a response without a head")
            return
        plain = self.plain(message, compressed=compressed)
        if plain is not None:
            self.hold(len(plain))
            self.queue.put(plain)

    def on_finished(self) -> None:
        """The call is over: wake the reader."""
        super().on_finished()
        self.queue.put(_END)

    def release_read(self, octets: int) -> None:
        """The other thread has read: the server may send more."""
        if not self.is_gone:
            self.release(min(octets, self.unread))


class QueuedUnaryStream(QueuedResponses, stream_call.UnaryStream):
    """One request, many responses."""


class QueuedStreamStream(RequestStream, QueuedResponses):
    """Many requests, many responses."""


class ResponseIterator(BlockingCall):
    """A call whose responses are read by ``next``."""

    _call: QueuedResponses

    def __init__(self, call: QueuedResponses) -> None:
        super().__init__(call)
        self._read_octets = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """The next response.

        Raises:
            StopIteration: There are no more, and the call went well.
            CallFailed: It did not.
        """
        call = self._call
        message = call.queue.get()
        if message is _END:
            call.queue.put(_END)
            if call.code_ is StatusCode.OK:
                raise StopIteration
            raise call.failure()
        self._read_octets += len(message)
        if self._read_octets >= _RELEASE_OCTETS:
            THREAD.call(call.release_read, self._read_octets)
            self._read_octets = 0
        deserializer = call.method.deserializer
        return message if deserializer is None else deserializer(message)

    def next(self) -> Any:
        """As ``next(call)``."""
        return next(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


def feed(call: RequestStream, requests: Iterable[Any]) -> None:
    """Send the requests of an iterator, from a thread of its own: it may block."""
    thread = threading.Thread(
        target=_feed, args=(call, requests), name="ariane-wire-requests", daemon=True
    )
    thread.start()


def _feed(call: RequestStream, requests: Iterable[Any]) -> None:
    loop = THREAD.loop()
    try:
        for request in requests:
            if call.code_ is not None:
                return
            asyncio.run_coroutine_threadsafe(call.write(request), loop).result()
            del request  # Not kept while the iterator waits for the next one.
    except (grpc.RpcError, asyncio.InvalidStateError, asyncio.CancelledError):
        return  # The call is over, and says why.
    except Exception as error:  # noqa: BLE001 - the caller's iterator: its call fails with it.
        details = f"the iterator of requests raised {error!r}"
        THREAD.call(call.give_up, StatusCode.UNKNOWN, details)
        return
    THREAD.call(call.end_requests)
