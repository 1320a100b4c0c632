"""Sending batches of an outbox: one call each, under sequence numbers that were recorded before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from ariane_record import ProducerSequence
from ariane_record.errors import RecordError
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.client.session import Session
from ariane_sdk.errors import ArianeError, CallError, SendError, ServiceUnavailable
from ariane_sdk.message import Message
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.status import error_from_status
from ariane_sdk.producer.batches.send_batch import RECORD_OVERHEAD_BYTES_MAX, SendBatch
from ariane_sdk.producer.batches.topic_lane import NO_OPTIONS, TopicLane
from ariane_sdk.producer.sending.append_wire import request_parts
from ariane_sdk.sql._outbox.rows import OutboxRow

SEQUENCE_GAP: Final = "SEQUENCE_GAP"
SEQUENCE_PASSED: Final = "SEQUENCE_PASSED"
PRODUCER_FENCED: Final = "PRODUCER_FENCED"
MESSAGE_ILLEGAL: Final = "MESSAGE_ILLEGAL"


class Verdict(Enum):
    """The outcome of a batch."""

    STORED = "stored"
    """Stored now, or by an earlier attempt."""

    REFUSED = "refused"
    """Surely not stored: its messages may be sent to another queue."""

    UNKNOWN = "unknown"
    """Perhaps stored: the same batch is to be sent again."""

    RENUMBER = "renumber"
    """The broker does not know these numbers: the stream begins anew with a larger epoch."""


class Outcome(NamedTuple):
    """The outcome of a batch, and its error.

    Attributes:
        verdict: The outcome.
        error: The error, unless it is stored.
    """

    verdict: Verdict
    error: CallError | None = None


class OutboxSends:
    """Chooses queues, and sends batches."""

    def __init__(self, session: Session, *, timeout_s: float, random: Random) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._random = random
        self._lanes: dict[str, TopicLane] = {}

    async def learn_routes(self, topics: Collection[str]) -> dict[str, ArianeError]:
        """Look up the routes of topics; return the errors of topics without a route."""
        refused: dict[str, ArianeError] = {}
        for topic in topics:
            try:
                route = await self._session.routes.get_for_send(topic)
                if route.groups_wait:
                    route = await self._session.routes.settle_groups(topic)
            except ArianeError as error:
                refused[topic] = error
                continue
            lane = self._lanes.get(topic)
            if lane is None:
                first = self._random.getrandbits(16)
                lane = self._lanes[topic] = TopicLane(topic, sticky_first=first)
            if lane.route != route:
                lane.follow(route)
        return refused

    def group_queue(self, topic: str, message_group: str) -> MessageQueue | None:
        """The queue of a message group; None while it is unknown."""
        try:
            return self._lanes[topic].pinned_queue(
                Message(topic, b"", message_group=message_group), NO_OPTIONS
            )
        except ArianeError:
            return None

    def next_queue(
        self, topic: str, is_free: Callable[[MessageQueue], bool]
    ) -> MessageQueue | None:
        """The next queue for messages without a message group; None if no queue is free."""
        lane = self._lanes[topic]
        tries = len(lane.route.write_queues) if lane.route is not None else 0
        for _ in range(tries):
            try:
                queue = lane.next_queue(lambda _broker_name: True)
            except SendError:
                return None
            if is_free(queue):
                return queue
        return None

    async def send(
        self, queue: MessageQueue, sequence: ProducerSequence, rows: Sequence[OutboxRow]
    ) -> Outcome:
        """Make one call with one batch. The same rows always make the same bytes."""
        try:
            return await self._send(queue, sequence, rows)
        except RecordError as error:
            # ``Outbox.add`` refuses such a message: another program has written the row.
            return Outcome(Verdict.REFUSED, CallError(str(error), reason=MESSAGE_ILLEGAL))
        except CallError as error:
            routes = self._session.routes
            routes.doubt(queue.topic)
            return Outcome(_verdict(error, sequence, len(rows)), error)

    async def _send(
        self, queue: MessageQueue, sequence: ProducerSequence, rows: Sequence[OutboxRow]
    ) -> Outcome:
        route = await self._session.routes.get_for_send(queue.topic)
        broker = route.broker(queue.broker_name)
        if broker is None or not broker.primary_address:
            raise ServiceUnavailable(f"nobody knows where broker {queue.broker_name} is")
        request = b"".join(request_parts("", [_batch(queue, sequence, rows).to_wire()]))
        peer = f"broker {queue.broker_name} at {broker.primary_address}"
        call = self._session.connections.append_records(
            broker.primary_address, request, self._timeout_s
        )
        (result,) = (await answer_of(call, peer)).results
        if result.HasField("error"):
            raise error_from_status(result.error, peer=peer)
        return Outcome(Verdict.STORED)


def _batch(queue: MessageQueue, sequence: ProducerSequence, rows: Sequence[OutboxRow]) -> SendBatch:
    # Room for all rows, also of a relay with other limits: the recorded rows are one batch.
    room_bytes = sum(len(row.message.body) + RECORD_OVERHEAD_BYTES_MAX for row in rows)
    batch = SendBatch(queue, choose_other=None, body_bytes_max=room_bytes, sequenced=True)
    batch.sequence = sequence
    for row in rows:
        batch.add(row.message, row.unique_id, row.born_timestamp_ms, None, body=row.message.body)
    return batch


def _verdict(error: CallError, sequence: ProducerSequence, count: int) -> Verdict:
    if error.reason == SEQUENCE_PASSED:
        # Only the recorded batch is ever sent under these numbers.
        passed = int(error.metadata.get("expected", 0)) >= sequence.first_sequence + count
        return Verdict.STORED if passed else Verdict.RENUMBER
    if error.reason in {SEQUENCE_GAP, PRODUCER_FENCED}:
        return Verdict.RENUMBER
    return Verdict.UNKNOWN if error.outcome_unknown else Verdict.REFUSED
