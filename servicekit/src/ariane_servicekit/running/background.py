"""Background work: one named task that repeats the same work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ariane_servicekit.clock import Clock, sleep_until_woken
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.observability.logs import get_logger

_log = get_logger(__name__)


class Loop:
    """Runs ``work`` every ``interval_s`` seconds, and at once when woken.

    A turn that raises is logged with its trace and the loop goes on: an unreachable name server
    must not end the heartbeat for ever. A turn that is refused (``ServiceError``) is no bug, and
    needs no trace: a broker that hands its role over refuses its own appends, too. It is logged
    once, until a turn succeeds. Work that has to end the process on a failure requests that itself
    (``StopRequest.request``). Turns never overlap. The interval runs from the end of
    one turn to the start of the next.

    Stop loops in an order in which no loop needs a stopped one.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        interval_s: float,
        clock: Clock,
    ) -> None:
        self.name = name
        self._work = work
        self._interval_s = interval_s
        self._clock = clock
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_refused = False

    def start(self, *, at_once: bool = False) -> None:
        """Start the loop; the first turn is after one interval, or at once.

        Raises:
            RuntimeError: It was started already.
        """
        if self._task is not None:
            msg = f"loop {self.name} was started already"
            raise RuntimeError(msg)
        if at_once:
            self._woken.set()
        self._task = asyncio.create_task(self._run(), name=f"loop:{self.name}")

    def wake(self) -> None:
        """Ask for a turn now; many calls before it begins are one turn."""
        self._woken.set()

    async def stop(self) -> None:
        """Cancel the turn in work and wait for its end. Repeating is harmless."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait((task,))

    async def _run(self) -> None:
        while True:
            if not self._woken.is_set():
                await sleep_until_woken(self._clock, self._interval_s, self._woken)
            self._woken.clear()
            try:
                await self._work()
            except ServiceError as error:
                if not self._is_refused:
                    _log.warning("loop_turn_refused", loop=self.name, cause=error.message)
                self._is_refused = True
            except Exception:  # noqa: BLE001 - after any error the loop goes on
                _log.exception("loop_turn_failed", loop=self.name)
            else:
                self._is_refused = False
