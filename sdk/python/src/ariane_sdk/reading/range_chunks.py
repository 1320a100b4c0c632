"""Reading ranges of queues as chunks of records, even when connections break.

The connections of a frozen process stay open. gRPC notices after 40 s, by its keepalive; a deadline
for the whole stream would hit large ranges, slow brokers and slow readers. So only the wait for the
next answer is limited, and silence alone does not end a stream::

    next() -----------------+ silence_s ------+ as long as a call may take
                            |                 |
                            is it alive?      no answer to this either: the stream is given up
                                              any answer, also a refusal: wait for as long again
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from grpc.aio import AioRpcError, UnaryStreamCall

from ariane.broker.v1.pull_service_pb2 import (
    PullRangeRequest,
    PullRangeResponse,
    RangeProjection,
)
from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_sdk.checks.queue_arguments import checked_count, checked_offset, checked_queue
from ariane_sdk.client.broker_calls import read_addresses
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.client.session import Session
from ariane_sdk.errors import ArianeError, CallError, MessagesLost, RecordDamaged
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.backoff import Backoff
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.routing.broker_addresses import find_broker
from ariane_sdk.routing.failover import REPEAT_S_MAX, REPEAT_S_MIN
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.tasks import start_task

Answer = TypeVar("Answer")


class LivingStream(Generic[Answer]):
    """The answers of one streaming call to a service that must stay alive."""

    def __init__(
        self,
        call: UnaryStreamCall[Any, Answer],
        ask: Callable[[], Awaitable[object]],
        *,
        silence_s: float,
    ) -> None:
        """``ask`` makes a small call to the same service, with a deadline, after ``silence_s``."""
        self._call = call
        self._answers: AsyncIterator[Answer] = aiter(call)
        self._ask = ask
        self._silence_s = silence_s
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.Task[None] | None = None
        self._silence: CallError | None = None

    async def next(self) -> Answer | None:
        """Return the next answer; None at the end.

        Raises:
            AioRpcError: The call ended with an error.
            CallError: The service was silent for long and did not answer the small call.
        """
        # A timer for each answer and a task only for late ones: that costs next to nothing.
        timer = self._loop.call_later(self._silence_s, self._begin_to_watch)
        try:
            return await anext(self._answers, None)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._silence is None or (task is not None and task.cancelling()):
                raise
            raise self._silence from None
        finally:
            timer.cancel()
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

    def _begin_to_watch(self) -> None:
        self._watch = start_task(self._watch_life(), "silence")

    async def _watch_life(self) -> None:
        """Ask the service until an answer comes; give the stream up when it does not answer."""
        while True:
            try:
                await self._ask()
            except ArianeError as error:
                if isinstance(error, CallError) and error.unanswered:
                    self._silence = error
                    self._call.cancel()
                    return
            await asyncio.sleep(self._silence_s)


class RangeChunks:
    """Reads ranges of queues from brokers."""

    def __init__(
        self,
        running: Callable[[], Session],
        clock: Clock,
        *,
        silence_s: float,
        patience_s: float,
        lost: LostMessages,
        replicas: bool = False,
    ) -> None:
        """Read nothing yet.

        Args:
            running: Returns the connections; raises when the client is not running.
            clock: The client's clock.
            silence_s: After so long without a chunk it is probed whether the broker is live.
            patience_s: Reading goes on after failures until there was no progress for so long.
            lost: Notes messages that the broker has lost.
            replicas: Whether to read from replicas while the primary does not answer.
        """
        self._running = running
        self._clock = clock
        self._silence_s = silence_s
        self._patience_s = patience_s
        self._replicas = replicas
        self._lost = lost

    async def of(
        self,
        queue: MessageQueue,
        begin: int,
        end: int,
        chunk_bytes: int,
        projection: RangeProjection.ValueType,
    ) -> AsyncGenerator[PullRangeResponse]:
        """The chunks of a range that contain records; continues after a broken connection.

        Args:
            queue: The queue.
            begin: The first queue offset.
            end: The end of the range, exclusive.
            chunk_bytes: About how many bytes one chunk has.
            projection: The parts of each record to read.

        Raises:
            IllegalArgument: An argument is not legal.
            QueueNotFound: No live broker has the queue.
            QueueOffsetOutOfRange: The begin is no longer kept.
            ClientNotRunning: The client is not running.
            MessagesLost: The broker has lost messages of the range, and that is an error.
            RecordDamaged: An answer leads back in the range.
            DeadlinePassed: The broker sends no chunk and does not answer a probe.
            CallError: The call failed, even when repeated.
        """
        checked_queue(queue)
        next_offset = checked_offset(begin)
        checked_offset(end)
        checked_count("chunk_bytes", chunk_bytes)
        turn = 0
        backoff = Backoff(REPEAT_S_MIN, REPEAT_S_MAX)
        progress_s = self._clock.monotonic_s()
        while next_offset < end:
            request = PullRangeRequest(
                topic=queue.topic,
                queue_id=queue.queue_id,
                begin_queue_offset=next_offset,
                end_queue_offset=end,
                chunk_bytes=chunk_bytes,
                projection=projection,
            )
            broker = await find_broker(self._running().routes, queue)
            # The primary; while it does not answer, its replicas in turn.
            addresses = read_addresses(broker, replicas=self._replicas)
            address = addresses[turn % len(addresses)]
            call = self._running().connections.pull(address).PullRange(request)
            ask = partial(self._running().calls.bounds_at, address, broker, queue.topic)
            stream = LivingStream(call, ask, silence_s=self._silence_s)
            try:
                while (chunk := await stream.next()) is not None:
                    self._lost.note(queue, chunk.lost)
                    next_offset = _behind(queue, next_offset, chunk)
                    backoff = Backoff(REPEAT_S_MIN, REPEAT_S_MAX)
                    progress_s = self._clock.monotonic_s()
                    if chunk.record_sizes:
                        yield chunk
            except (MessagesLost, RecordDamaged):
                raise
            except (CallError, AioRpcError) as failure:
                error = _error_of(failure, peer=f"broker {broker.broker_name} at {address}")
                turn += 1
                if error.reason == "QUEUE_UNDER_REPAIR":
                    progress_s = self._clock.monotonic_s()  # The broker is working on it.
                # Each is tried at least once, however long the first was silent.
                left_s = progress_s + self._patience_s - self._clock.monotonic_s()
                if not error.retriable or (left_s <= 0 and turn >= len(addresses)):
                    raise error from (None if error is failure else failure)
                delay_s = backoff.next_s()
                await self._running().failover.wait(error, [queue.topic], delay_s, delay_s)
            else:
                return
            finally:
                call.cancel()


def _behind(queue: MessageQueue, offset: int, chunk: PullRangeResponse) -> int:
    """The next queue offset after a chunk that begins at one.

    Raises:
        RecordDamaged: It leads back: its messages would be read again and again.
    """
    behind = chunk.next_queue_offset
    if behind < offset or (behind == offset and chunk.record_sizes):
        raise RecordDamaged(f"{queue}: the broker's answer leads back from {offset} to {behind}")
    return behind


def _error_of(failure: CallError | AioRpcError, *, peer: str) -> CallError:
    """Why a range ended early: a silent stream as it is, or the status of the call."""
    error = failure if isinstance(failure, CallError) else error_from_rpc(failure, peer=peer)
    error.outcome_unknown = False  # Reading changes nothing.
    return error


def chunk_columns(queue: MessageQueue, chunk: PullRangeResponse) -> RecordColumns:
    """The records of a chunk.

    Raises:
        RecordDamaged: They cannot be decoded.
    """
    sizes = np.frombuffer(chunk.record_sizes, "<i4").astype(np.int32, copy=False)
    try:
        return decode_columns(chunk.records, sizes)
    except RecordCorrupted as error:
        raise RecordDamaged(f"{queue} before {chunk.next_queue_offset}: {error}") from error
