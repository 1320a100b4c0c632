"""Coroutines that start at once: their code up to the first wait runs in the caller.

A task would start in the next turn of the loop, and a single request would wait for that. Only for
coroutines that are never cancelled and never ask for their task. The SDK has the same class;
services do not import it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Ended = Callable[[BaseException | None], None]
"""Is told of the end: why it failed, or nothing."""


class PromptRun:
    """One run."""

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
        except BaseException as error:  # noqa: BLE001 - as a task does: it is told, not thrown.
            self._ended(error)
        else:
            if waited is None:  # Others have a turn, as in ``asyncio.sleep(0)``.
                asyncio.get_running_loop().call_soon(self._step)
                return
            # The protocol between futures and tasks: the wait is taken note of.
            waited._asyncio_future_blocking = False  # noqa: SLF001 - the same.
            waited.add_done_callback(self._step)
