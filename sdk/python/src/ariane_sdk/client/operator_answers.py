"""A client's answers to questions of operators, which arrive on its stream to a broker."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from heapq import nsmallest
from importlib.metadata import version
from itertools import islice
from types import CodeType, FrameType
from typing import Any, Final

from ariane.broker.v1.client_question_pb2 import (
    CONSUME_OUTCOME_REFUSED,
    ClientQueueState,
    ClientStack,
    ClientState,
    ClientStateQuestion,
    ConsumeAnswer,
    ConsumeQuestion,
)
from ariane.broker.v1.client_service_pb2 import AttachRequest
from ariane_sdk.runtime.tasks import start_task

QUEUES_MAX: Final = 20_000
"""The most queues in an answer, which has to fit into a message."""

STACKS_BYTES_MAX: Final = 512 << 10

FACT_LENGTH_MAX: Final = 200

Consume = Callable[[ConsumeQuestion, str], Awaitable[ConsumeAnswer]]
"""Consumes a message at the request of a broker, which is given by name. Never raises."""

STACKS_MAX: Final = 500

STACK_FRAMES_MAX: Final = 60
"""The most frames of a stack; the outermost are left out."""

NAME_LENGTH_MAX: Final = 200

PLACE_LENGTH_MAX: Final = 300


class OperatorAnswers:
    """Answers for one client."""

    def __init__(
        self,
        *,
        facts: Callable[[], Mapping[str, str]],
        queues: Callable[[], Sequence[ClientQueueState]] = tuple,
        stacks_allowed: bool = True,
        consume: Consume | None = None,
        consume_refusal: str = "only push consumers consume on request",
    ) -> None:
        """``facts`` are those of the client beside its versions.

        ``consume`` consumes a message on request; None if that is refused, for ``consume_refusal``.
        """
        self._facts = facts
        self._queues = queues
        self._stacks_allowed = stacks_allowed
        self._consume = consume
        self._consume_refusal = consume_refusal
        self._consuming: asyncio.Task[None] | None = None
        self._closed = False

    def state(self, question: ClientStateQuestion) -> ClientState:
        """The present state of the client."""
        queues = self._queues()
        state = ClientState(
            question_id=question.question_id,
            facts={
                "python_version": ".".join(map(str, sys.version_info[:3])),
                "sdk_version": version("ariane-sdk"),
                **{name: value[:FACT_LENGTH_MAX] for name, value in self._facts().items()},
            },
            queues=islice(queues, QUEUES_MAX),
            truncated=len(queues) > QUEUES_MAX,
        )
        if question.with_stacks and not self._stacks_allowed:
            state.stacks_refusal = "the client's setting stacks_on_request is off"
        elif question.with_stacks:
            _add_stacks(state)
        return state

    def consume(
        self, question: ConsumeQuestion, broker_name: str, say: Callable[[AttachRequest], None]
    ) -> None:
        """Consume a message, one at a time, and send the outcome when it is known."""
        if self._consume is None:
            cause = self._consume_refusal
        elif self._closed:
            cause = "the consumer is closing"
        elif self._consuming is not None:
            cause = "the listener is at another message that it was asked to consume"
        else:
            work = self._answer(self._consume, question, broker_name, say)
            self._consuming = start_task(work, "consume-on-request")
            return
        refusal = ConsumeAnswer(
            question_id=question.question_id, outcome=CONSUME_OUTCOME_REFUSED, cause=cause
        )
        say(AttachRequest(consume_answer=refusal))

    async def close(self, timeout_s: float) -> None:
        """Wait a while for the listener, and refuse later questions."""
        self._closed = True
        if self._consuming is not None:
            _, busy = await asyncio.wait([self._consuming], timeout=timeout_s)
            for task in busy:
                task.cancel()

    async def _answer(
        self,
        consume: Consume,
        question: ConsumeQuestion,
        broker_name: str,
        say: Callable[[AttachRequest], None],
    ) -> None:
        try:
            answer = await consume(question, broker_name)
        finally:
            self._consuming = None
        say(AttachRequest(consume_answer=answer))


def settings_facts(settings: Any) -> dict[str, str]:
    """Numbers and choices of a client's settings; texts may hold secrets and are left out."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        f"settings.{name}": str(value)
        for name, value in values.items()
        if isinstance(value, bool | int | float)
    }


def _add_stacks(state: ClientState) -> None:
    stacks, cut = stacks_now()
    size_bytes = 0
    for stack in stacks:
        size_bytes += stack.ByteSize()
        if size_bytes > STACKS_BYTES_MAX:
            cut = True
            break
        state.stacks.append(stack)
    state.truncated = state.truncated or cut


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
