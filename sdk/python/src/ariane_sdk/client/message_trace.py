"""Message trace: a client writes each step of its messages to the system's trace topic.

Steps are gathered and written in batches in the background, by plain sends of one call; no send or
listener waits for them. Steps that cannot be written are lost, and the log has their number.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import grpc

from ariane.broker.v1.send_service_pb2 import SendMessagesRequest
from ariane.common.v1.message_pb2 import Message as WireMessage
from ariane_record.counted import counted
from ariane_record.names import TRACE_PARENT, TRACE_TOPIC
from ariane_record.single.message_trace import (
    STEPS_PER_MESSAGE_MAX,
    TraceKind,
    TraceStep,
    encode_steps,
)
from ariane_sdk.errors import ArianeError
from ariane_sdk.message import Message, ReceivedMessage, SendResult
from ariane_sdk.runtime.tasks import start_task

if TYPE_CHECKING:
    from ariane_sdk.client.listener import Listener
    from ariane_sdk.client.session import Session
    from ariane_sdk.runtime.clock import Clock

WRITE_INTERVAL_S: Final = 0.5
"""How long a step waits for others to share its call."""

STEPS_PER_CALL_MAX: Final = 2000
STEPS_WAITING_MAX: Final = 50_000
"""The most steps that are kept while no broker is reachable."""

KEYS_MAX: Final = 200
"""Keys of one message of the trace topic; the rest are not found by key."""

_NORMAL, _HALF, _DELAYED, _ORDERED = 0, 1, 3, 4

_log: Final = logging.getLogger(__name__)


class MessageTrace:
    """Writes the steps of one client's messages."""

    def __init__(
        self,
        session: Callable[[], Session],
        *,
        group: str,
        client_id: str,
        clock: Clock,
        timeout_s: float,
    ) -> None:
        """``session`` returns the client's session, once there is one."""
        self._session = session
        self._group = group
        self._client_id = client_id
        self._clock = clock
        self._timeout_s = timeout_s
        self._steps: list[TraceStep] = []
        self._lost_count = 0
        self._writing: asyncio.Task[None] | None = None
        self._numbers = count()
        self._closing = asyncio.Event()

    def sent(self, message: Message, future: asyncio.Future[SendResult]) -> None:
        """Add the step of a send, once its outcome is known."""
        began_ms = self._clock.now_ms()

        def end(sent: asyncio.Future[SendResult]) -> None:
            if sent.cancelled() or sent.exception() is not None:
                return  # Its id is known to no consumer.
            self._add(self._of_send(message, sent.result(), began_ms))

        future.add_done_callback(end)

    async def around_all(
        self,
        messages: Sequence[Message],
        sending: Awaitable[Sequence[SendResult | ArianeError]],
    ) -> Sequence[SendResult | ArianeError]:
        """Wait for messages that are sent together, and add steps of the stored ones."""
        began_ms = self._clock.now_ms()
        outcomes = await sending
        for message, outcome in zip(messages, outcomes, strict=True):
            if isinstance(outcome, SendResult):
                self._add(self._of_send(message, outcome, began_ms))
        return outcomes

    def half_sent(self, message: Message, unique_id: str, began_ms: int) -> None:
        """Add the step of a half message that was stored."""
        self._add(
            self._step(TraceKind.SEND, unique_id, began_ms)._replace(
                topic=message.topic,
                tag=message.tag,
                keys=tuple(message.keys),
                body_bytes=len(message.body),
                message_type=_HALF,
                cost_ms=self._clock.now_ms() - began_ms,
                trace_parent=message.properties.get(TRACE_PARENT, ""),
            )
        )

    def ended(self, topic: str, unique_id: str, state: str) -> None:
        """Add the step of a transaction that has ended."""
        step = self._step(TraceKind.END_TRANSACTION, unique_id, self._clock.now_ms())
        self._add(step._replace(topic=topic, state=state, message_type=_HALF))

    def recalled(self, topic: str, unique_id: str, *, successful: bool) -> None:
        """Add the step of a recall of a delayed message."""
        step = self._step(TraceKind.RECALL, unique_id, self._clock.now_ms())
        self._add(step._replace(topic=topic, successful=successful))

    def traced(self, listener: Listener) -> Listener:
        """Wrap a listener, so that steps are added for each call and its outcome.

        Args:
            listener: A coroutine function, or a plain one, which runs in a thread.
        """
        plain: Any = listener
        if inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(
            getattr(plain, "__call__", None)  # noqa: B004 - objects with `async def __call__`.
        ):

            async def listen(messages: list[ReceivedMessage]) -> None:
                with self._consuming(messages, self._add_all):
                    outcome: None = await plain(messages)
                return outcome

            return listen
        loop = asyncio.get_running_loop()

        def add_from_thread(steps: Sequence[TraceStep]) -> None:
            loop.call_soon_threadsafe(self._add_all, steps)

        def listen_plain(messages: list[ReceivedMessage]) -> None:
            with self._consuming(messages, add_from_thread):
                outcome: None = plain(messages)
            return outcome

        return listen_plain

    async def close(self) -> None:
        """Write the remaining steps, until a call fails: further steps are lost."""
        await asyncio.sleep(0)  # Callbacks of sends that have just ended run first.
        self._closing.set()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._steps:
            await self._write_all()

    @contextmanager
    def _consuming(
        self, messages: Sequence[ReceivedMessage], add: Callable[[Sequence[TraceStep]], None]
    ) -> Iterator[None]:
        began_ms = self._clock.now_ms()
        begun = [
            self._step(TraceKind.CONSUME_BEGIN, message.unique_id, began_ms)._replace(
                topic=message.topic,
                request_id=f"{self._client_id}-{next(self._numbers)}",
                attempts=message.attempts,
                keys=tuple(message.keys),
                trace_parent=message.properties.get(TRACE_PARENT, ""),
            )
            for message in messages
            if message.topic != TRACE_TOPIC
        ]
        add(begun)
        successful = False
        try:
            yield
            successful = True
        finally:
            cost_ms = self._clock.now_ms() - began_ms
            add(
                [
                    step._replace(
                        kind=TraceKind.CONSUME_END, cost_ms=cost_ms, successful=successful
                    )
                    for step in begun
                ]
            )

    def _of_send(self, message: Message, result: SendResult, began_ms: int) -> TraceStep:
        message_type = _NORMAL
        if message.message_group:
            message_type = _ORDERED
        elif result.recall_handle or message.delay_level:
            message_type = _DELAYED
        return self._step(TraceKind.SEND, result.unique_id, began_ms)._replace(
            topic=message.topic,
            tag=message.tag,
            keys=tuple(message.keys),
            store_host=result.broker_address,
            body_bytes=len(message.body),
            cost_ms=self._clock.now_ms() - began_ms,
            message_type=message_type,
            trace_parent=message.properties.get(TRACE_PARENT, ""),
        )

    def _step(self, kind: TraceKind, unique_id: str, began_ms: int) -> TraceStep:
        return TraceStep(kind, unique_id, began_ms, self._group, client_id=self._client_id)

    def _add_all(self, steps: Sequence[TraceStep]) -> None:
        for step in steps:
            self._add(step)

    def _add(self, step: TraceStep) -> None:
        if len(self._steps) >= STEPS_WAITING_MAX:
            self._lost_count += 1
            return
        self._steps.append(step)
        if self._writing is None and not self._closing.is_set():
            self._writing = start_task(self._write_soon(), "message-trace")

    async def _write_soon(self) -> None:
        """Wait for more steps, and write all; again while there are more."""
        try:
            while self._steps:
                closing = asyncio.create_task(self._closing.wait())
                await asyncio.wait([closing], timeout=WRITE_INTERVAL_S)
                closing.cancel()
                await self._write_all()
        finally:
            self._writing = None

    async def _write_all(self) -> None:
        while self._steps:
            taken, self._steps = (
                self._steps[:STEPS_PER_CALL_MAX],
                self._steps[STEPS_PER_CALL_MAX:],
            )
            try:
                await self._write(taken)
            except (ArianeError, grpc.aio.AioRpcError) as error:
                self._lost_count += len(taken)
                if self._closing.is_set():
                    # Each further call to a hanging broker would take as long again.
                    self._lost_count += len(self._steps)
                    self._steps = []
                count = counted(self._lost_count, "step")
                _log.warning("lost, of message traces: %s: %s", count, error)
                self._lost_count = 0

    async def _write(self, steps: Sequence[TraceStep]) -> None:
        session = self._session()
        route = await session.routes.get(TRACE_TOPIC)
        addresses = sorted(filter(None, route.primary_addresses.values()))
        if not addresses:
            raise ArianeError("no broker takes message traces")
        address = addresses[next(self._numbers) % len(addresses)]
        request = SendMessagesRequest(
            topic=TRACE_TOPIC,
            messages=[
                _message_of(steps[begin : begin + STEPS_PER_MESSAGE_MAX])
                for begin in range(0, len(steps), STEPS_PER_MESSAGE_MAX)
            ],
        )
        await session.connections.send(address).SendMessages(request, timeout=self._timeout_s)


def _message_of(steps: Sequence[TraceStep]) -> WireMessage:
    keys = dict.fromkeys(step.unique_id for step in steps)
    keys |= dict.fromkeys(key for step in steps for key in step.keys)
    return WireMessage(body=encode_steps(steps), keys=list(keys)[:KEYS_MAX])
