"""Background tasks: named, and their failures are logged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

Result = TypeVar("Result")

FAILURE_PAUSE_S: Final = 1.0
"""How long a loop pauses after an unexpected failure."""


def start_task(coroutine: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result]:
    """Start a task; its failure is logged, even if no caller waits for it.

    Args:
        coroutine: The coroutine to run.
        name: For the log and for debuggers.
    """
    task = asyncio.create_task(coroutine, name=f"ariane-{name}")
    task.add_done_callback(_report_failure)
    return task


async def loop_for_ever(step: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Repeat a step until the task is cancelled, even after failures.

    Args:
        step: One round; waits by itself.
        clock: Times the pause after a failed round.
    """
    while True:
        try:
            await step()
        except Exception:  # noqa: BLE001 - the client needs its loop.
            logger.exception("a background loop failed, and goes on")
            await clock.sleep(FAILURE_PAUSE_S)


def _report_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("background task %s failed", task.get_name(), exc_info=error)
