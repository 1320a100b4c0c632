"""The bridge from blocking calls to an event loop in a thread of its own.

Every blocking client has its loop. A blocking method is declared by naming a coroutine function,
and has the arguments, result and documentation of that function.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
)

from ariane_sdk.errors import ClientNotRunning
from ariane_sdk.runtime.fork import ForkGuard
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.unclosed import warn_unclosed
from ariane_wire import new_event_loop

Params = ParamSpec("Params")
Result = TypeVar("Result")

_END: Final = object()

CLEAN_UP_S_MAX: Final = 5.0
"""The longest time for an interrupted call to clean up."""

EXIT_S_MAX: Final = 1.0
"""How long the exit of the process waits for a loop that was left running."""


class AsyncClient(Protocol):
    """An asynchronous client that a blocking client wraps."""

    async def start(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End; harmless if it was never started or has ended."""


Wrapped = TypeVar("Wrapped", bound=AsyncClient)


class LoopThread:
    """An event loop in a thread of its own.

    No call waits for ever: when the loop ends, calls that still wait end with ClientNotRunning.
    """

    def __init__(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the thread.

        Args:
            close: Closes the client, on the loop, when a callback has called ``sys.exit()``: in
                the main thread that would end the program.
        """
        self._close = close
        self._exit: BaseException | None = None
        self._fork_guard = ForkGuard()
        self._loop = new_event_loop()
        # Reentrant: a signal handler may close the client while its thread begins a call.
        self._lock = threading.RLock()
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._stopping = self._left_running = False
        self._thread = threading.Thread(target=self._run_loop, name="ariane-loop", daemon=True)
        self._thread.start()
        _RUNNING.add(self)

    @property
    def in_use(self) -> bool:
        """Whether it runs in this process, or ran until the process ended."""
        return self._fork_guard.is_here and (self._left_running or not self._stopping)

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Run a coroutine on the loop; its future is cancelled if the loop ends first.

        Raises:
            ClientForked: The thread is in the parent process.
            ClientNotRunning: The loop has ended, or the caller is the loop itself.
        """
        try:
            self._fork_guard.check()
            with self._lock:
                self._check()
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
                self._calls.add(future)
        except BaseException:
            coroutine.close()
            raise
        future.add_done_callback(self._forget)
        return future

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop, and wait for it.

        Raises:
            ClientForked: As ``submit``.
            ClientNotRunning: As ``submit``, or the client was closed during the call.
        """
        future = self.submit(coroutine)
        try:
            return self.result_of(future)
        finally:
            # Needed only if an interrupt such as Ctrl-C ended the wait.
            future.cancel()

    def result_of(self, future: concurrent.futures.Future[Result]) -> Result:
        """Wait for the result of a coroutine that was submitted.

        Raises:
            ClientNotRunning: The client was closed during the call.
        """
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if not self._stopping:
                raise
            raise ClientNotRunning("the client was closed during this call") from self._exit

    def raise_requested_exit(self) -> None:
        """Raise the ``SystemExit`` of a callback, if one has closed the client."""
        if self._exit is not None:
            raise self._exit

    def close(self) -> None:
        """End loop and thread; harmless if they have ended."""
        self._fork_guard.check()
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def end_at_exit(self) -> None:
        """End a loop that was left running: in C, it would crash the process at its next event."""
        if not self._fork_guard.is_here:
            return  # A thread of the parent may have held the lock, which stays locked here.
        with self._lock:
            if not self.in_use:
                return
            self._stopping = self._left_running = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(EXIT_S_MAX)

    def _check(self) -> None:
        if threading.current_thread() is self._thread:
            raise ClientNotRunning(
                "a blocking call from the client's own loop would wait for ever:"
                " listeners that are coroutine functions use the asynchronous client"
            )
        if self._stopping:
            raise ClientNotRunning("the client is closed")

    def _forget(self, future: concurrent.futures.Future[Any]) -> None:
        with self._lock:
            self._calls.discard(future)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._run_until_stopped()
            self._loop.run_until_complete(self._end_calls())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _run_until_stopped(self) -> None:
        """Run the loop; after a ``sys.exit()`` it goes on until the client is closed."""
        while not self._stopping:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                if self._exit is None:
                    logger.error("%r in a callback: the client closes", error)
                    self._exit = error
                    self._exiting = self._loop.create_task(self._close_and_stop())

    async def _close_and_stop(self) -> None:
        try:
            await self._close()
        finally:
            with self._lock:
                self._stopping = True
            self._loop.stop()

    async def _end_calls(self) -> None:
        """Cancel the calls that still wait, and let them clean up, for example leave a group."""
        with self._lock:
            left = list(self._calls)
        for future in left:
            future.cancel()
        await asyncio.sleep(0)  # Their tasks are cancelled by a callback.
        tasks = [task for task in asyncio.all_tasks() if task.cancelling()]
        if tasks:
            await asyncio.wait(tasks, timeout=CLEAN_UP_S_MAX)


_RUNNING: Final = weakref.WeakSet[LoopThread]()


@atexit.register
def _end_all() -> None:
    for each in list(_RUNNING):
        each.end_at_exit()


class BlockingClient(Generic[Wrapped]):
    """An asynchronous client, called from ordinary functions in any thread."""

    def __init__(self, client: Wrapped) -> None:
        """Wrap a client.

        Args:
            client: The client, not started.
        """
        self._client = client
        self._loop_thread: LoopThread | None = None

    def start(self) -> None:
        """Start the client, on a loop of its own.

        Raises:
            ClientNotRunning: It was started before.
            ArianeError: As ``start`` of the client.
        """
        if self._loop_thread is not None:
            raise ClientNotRunning("a blocking client is started once; make another one")
        self._loop_thread = LoopThread(self._client.close)
        try:
            self._run(self._client.start())
        except BaseException:
            self._end()
            raise

    def __del__(self) -> None:
        thread = getattr(self, "_loop_thread", None)
        if thread is not None and thread.in_use:
            warn_unclosed(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def close(self) -> None:
        """Close the client and its loop; harmless if it was never started or is closed."""
        self._run_last(self._client.close)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run_last(self, end: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """End the client and its loop; harmless if it was never started or has ended."""
        if self._loop_thread is None:
            return
        try:
            self._run(end())
        except ClientNotRunning:
            pass
        finally:
            self._end()

    def _end(self) -> None:
        if self._loop_thread is not None:
            self._loop_thread.close()

    def _submit(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        return self._running(coroutine).submit(coroutine)

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self._running(coroutine).run(coroutine)

    def _run_callbacks(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a call that lasts while callbacks work; a ``sys.exit()`` of theirs is raised here."""
        loop_thread = self._running(coroutine)
        try:
            loop_thread.run(coroutine)
        except ClientNotRunning:
            loop_thread.raise_requested_exit()
            raise
        loop_thread.raise_requested_exit()

    def _on_loop(self, function: Callable[[], Result]) -> Result:
        async def call() -> Result:
            return function()

        return self._run(call())

    def _result_of(self, future: concurrent.futures.Future[Result]) -> Result:
        if self._loop_thread is None:
            raise ClientNotRunning("the client is not running: start it, or use `with`")
        return self._loop_thread.result_of(future)

    def _running(self, coroutine: Coroutine[Any, Any, object]) -> LoopThread:
        if self._loop_thread is None:
            coroutine.close()
            raise ClientNotRunning("the client is not running: start it, or use `with`")
        return self._loop_thread


def blocking(
    method: Callable[Concatenate[Any, Params], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Params], Result]:
    """A method that waits for a coroutine method of the wrapped client.

    Args:
        method: The method in the class of the wrapped client.
    """

    @wraps(method)
    def call(client: BlockingClient[Any], /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        return client._run(method(client._client, *args, **kwargs))  # noqa: SLF001 - a friend.

    return call


def blocking_iterator(
    method: Callable[Concatenate[Any, Params], AsyncIterator[Result]],
) -> Callable[Concatenate[Any, Params], Iterator[Result]]:
    """A generator of the elements of an asynchronous generator of the wrapped client.

    The next element is fetched while the caller works on the present one.

    Args:
        method: The method in the class of the wrapped client.
    """

    @wraps(method)
    def iterate(
        client: BlockingClient[Any], /, *args: Params.args, **kwargs: Params.kwargs
    ) -> Iterator[Result]:
        elements = _Elements(method(client._client, *args, **kwargs))  # noqa: SLF001 - a friend.
        following = client._submit(elements.following())  # noqa: SLF001 - the same.
        try:
            while (element := client._result_of(following)) is not _END:  # noqa: SLF001 - the same.
                following = client._submit(elements.following())  # noqa: SLF001 - the same.
                yield cast("Result", element)
        finally:
            with suppress(ClientNotRunning):  # The loop has ended, and the generator with it.
                client._run(elements.close(following))  # noqa: SLF001 - the same.

    return iterate


class _Elements:
    """The elements of an asynchronous generator, one per call."""

    def __init__(self, elements: AsyncIterator[Any]) -> None:
        self._elements = elements
        self._in_use = asyncio.Lock()

    async def following(self) -> object:
        """The next element, or ``_END``."""
        async with self._in_use:
            return await anext(self._elements, _END)

    async def close(self, following: concurrent.futures.Future[Any]) -> None:
        """End the generator, even while its next element is being fetched.

        A running generator cannot be closed: this waits until it has cleaned up.
        """
        following.cancel()
        async with self._in_use:
            if isinstance(self._elements, AsyncGenerator):
                await self._elements.aclose()
