"""A client's answers to questions of operators, which arrive on its stream to a broker."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from itertools import islice
from typing import Any, Final

from ariane.broker.v1.client_question_pb2 import (
    CONSUME_OUTCOME_REFUSED,
    ClientQueueState,
    ClientState,
    ClientStateQuestion,
    ConsumeAnswer,
    ConsumeQuestion,
)
from ariane.broker.v1.client_service_pb2 import AttachRequest
from ariane_sdk.client.stacks import stacks_now
from ariane_sdk.runtime.tasks import start_task

QUEUES_MAX: Final = 20_000
"""The most queues in an answer, which has to fit into a message."""

STACKS_BYTES_MAX: Final = 512 << 10

FACT_LENGTH_MAX: Final = 200

Consume = Callable[[ConsumeQuestion, str], Awaitable[ConsumeAnswer]]
"""Consumes a message at the request of a broker, which is given by name. Never raises."""


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
