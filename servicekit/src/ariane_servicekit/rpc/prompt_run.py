"""Coroutines that start at once: their code up to the first wait runs in the caller.

A task would begin in the next turn of the loop, and that is what a lone request waits for. For
coroutines that nobody cancels, and that ask nobody which task they run in. The SDK, which services
do not know, has the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Over = Callable[[BaseException | None], None]
"""Is told of the end: why it failed, or nothing."""


class PromptRun:
    """One run."""

    __slots__ = ("_coroutine", "_over")

    def __init__(self, coroutine: Coroutine[Any, Any, object], over: Over) -> None:
        """Run up to the first wait; what did not have to wait is over by then.

        Args:
            coroutine: What to run; it waits for futures of asyncio, or gives others a turn.
            over: Is told of its end, perhaps from in here.
        """
        self._coroutine = coroutine
        self._over = over
        self._step()

    def _step(self, _: object = None) -> None:
        try:
            waited = self._coroutine.send(None)
        except StopIteration:
            self._over(None)
        except BaseException as error:  # noqa: BLE001 - as a task does: it is told, not thrown.
            self._over(error)
        else:
            if waited is None:  # Others have a turn, as in ``asyncio.sleep(0)``.
                asyncio.get_running_loop().call_soon(self._step)
                return
            # The protocol between futures and tasks: the wait is taken note of.
            waited._asyncio_future_blocking = False  # noqa: SLF001 - the same.
            waited.add_done_callback(self._step)
