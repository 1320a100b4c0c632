"""Forcing the commit log to the disk: one flush serves all that wait.

A flush waits on the disk, so it runs in the one flusher thread. Those who ask while a flush is
under way wait for the next one, together; under synchronous flush this is what makes a thousand
senders cost hardly more than one.

A flush that fails is never repeated. Who waits learns that nobody knows; the store refuses
everything from then on, and the broker ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from ariane_broker.errors import flush_unconfirmed


class FlushedLog(Protocol):
    """What is asked of the store."""

    @property
    def flushed_offset(self) -> int:
        """Commit-log offset before which everything is on the disk."""
        ...

    def flush(self) -> int:
        """Force everything appended so far to the disk; in any thread."""
        ...


class GroupFlush:
    """Who waits for which end of the log to be on the disk."""

    def __init__(
        self,
        log: FlushedLog,
        flusher: Executor,
        *,
        timeout_seconds: float,
        on_flushed: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """Start with nobody waiting.

        Args:
            log: What to flush.
            flusher: Runs one flush at a time.
            timeout_seconds: The longest wait for a flush.
            on_flushed: Called on the loop after each flush.
            on_failed: Called on the loop when a flush failed: the broker has to end.
        """
        self._log = log
        self._flusher = flusher
        self._timeout_seconds = timeout_seconds
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._running: asyncio.Task[None] | None = None
        self._asked = False

    async def wait(self, commit_log_offset: int) -> None:
        """Return once everything before this commit-log offset is on the disk.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED when the flush failed or took too long.
        """
        if commit_log_offset <= self._log.flushed_offset:
            return
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((commit_log_offset, flushed))
        self.request()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await flushed
        except TimeoutError:
            raise flush_unconfirmed() from None

    def request(self) -> None:
        """Ask for a flush of all that is appended by now; returns at once."""
        self._asked = True
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="group-flush")

    async def finish(self) -> None:
        """Wait for the flush that is under way, if there is one."""
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._asked:
                self._asked = False
                flushed_offset = await loop.run_in_executor(self._flusher, self._log.flush)
                self._serve(flushed_offset)
        except Exception as error:  # noqa: BLE001 - whatever it is: nobody knows what is on the disk.
            self._fail(error)
        finally:
            self._running = None

    def _serve(self, flushed_offset: int) -> None:
        waiting = self._waiting
        self._waiting = []
        for entry in waiting:
            commit_log_offset, flushed = entry
            if commit_log_offset > flushed_offset:
                self._waiting.append(entry)
            elif not flushed.done():
                flushed.set_result(None)
        self._on_flushed()

    def _fail(self, error: BaseException) -> None:
        waiting = self._waiting
        self._waiting = []
        for _, flushed in waiting:
            if not flushed.done():
                flushed.set_exception(flush_unconfirmed())
        self._on_failed(error)
