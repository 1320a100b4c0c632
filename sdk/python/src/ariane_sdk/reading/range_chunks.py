"""Reading ranges of queues as chunks of records, even when connections break."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial

import numpy as np
from grpc.aio import AioRpcError

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
from ariane_sdk.errors import CallError, MessagesLost, RecordDamaged
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.backoff import Backoff
from ariane_sdk.net.living_stream import LivingStream
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.routing.failover import REPEAT_S_MAX, REPEAT_S_MIN
from ariane_sdk.routing.routes import find_broker
from ariane_sdk.runtime.clock import Clock


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
        """``running`` returns the connections; it raises when the client is not running.

        After ``silence_s`` without a chunk it is probed whether the broker is live. Reading goes on
        after failures until there was no progress for ``patience_s``. ``replicas``: whether to read
        from replicas while the primary does not answer. ``lost`` hears of messages that the broker
        has lost.
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
                    next_offset = chunk.next_queue_offset
                    backoff = Backoff(REPEAT_S_MIN, REPEAT_S_MAX)
                    progress_s = self._clock.monotonic_s()
                    if chunk.record_sizes:
                        yield chunk
            except MessagesLost:
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
