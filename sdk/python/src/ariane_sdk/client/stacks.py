"""The stacks of the threads and tasks of this process: places in code, without variables."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice
from types import CodeType, FrameType
from typing import Any, Final

from ariane.broker.v1.client_question_pb2 import ClientStack

STACKS_MAX: Final = 500
STACK_FRAMES_MAX: Final = 60
"""The most frames of a stack; the outermost are left out."""

NAME_LENGTH_MAX: Final = 200
PLACE_LENGTH_MAX: Final = 300


def stacks_now() -> tuple[list[ClientStack], bool]:
    """The stack of each thread, and of each task of the running loop.

    A process may have very many tasks: only stacks that are returned are collected.

    Returns:
        Threads by name, then tasks by name; and whether some were left out.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001 - documented, and the one way.
    threads = [(names.get(ident, f"thread {ident}"), frame) for ident, frame in frames.items()]
    tasks = [(task.get_name(), task) for task in asyncio.all_tasks()]
    stacks = [
        ClientStack(
            name=name[:NAME_LENGTH_MAX],
            is_thread=True,
            frames=list(islice(_of_frame(frame), STACK_FRAMES_MAX))[::-1],
        )
        for name, frame in nsmallest(STACKS_MAX, threads, key=_name)
    ]
    stacks += [
        ClientStack(
            name=name[:NAME_LENGTH_MAX],
            frames=deque(_of_awaited(task.get_coro()), STACK_FRAMES_MAX),
        )
        for name, task in nsmallest(STACKS_MAX - len(stacks), tasks, key=_name)
    ]
    return stacks, len(threads) + len(tasks) > STACKS_MAX


def _of_frame(frame: FrameType | None) -> Iterator[str]:
    """The calls of a thread, the innermost first."""
    while frame is not None:
        yield _place(frame.f_code, frame.f_lineno)
        frame = frame.f_back


def _of_awaited(awaited: Any) -> Iterator[str]:
    """The calls of a task that waits, the outermost first: each awaits the next."""
    for _ in range(1000):
        for kind in ("cr", "gi", "ag"):
            if (code := getattr(awaited, f"{kind}_code", None)) is not None:
                break
        else:
            return
        frame = getattr(awaited, f"{kind}_frame")
        yield _place(code, code.co_firstlineno if frame is None else frame.f_lineno)
        awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


def _place(code: CodeType, line: int | None) -> str:
    return f"{code.co_filename}:{line} in {code.co_qualname}"[-PLACE_LENGTH_MAX:]


def _name(named: tuple[str, object]) -> str:
    return named[0]
