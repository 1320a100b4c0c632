"""Sending batches of an outbox: one call each, under sequence numbers that were recorded before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from ariane_record import ProducerSequence
from ariane_record.encoding.message_properties import TopicProperties
from ariane_record.encoding.row_encoder import encode_rows
from ariane_record.errors import IllegalProperty, RecordError
from ariane_record.single.message_id import IdRun, UniqueIds
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.client.session import Session
from ariane_sdk.errors import ArianeError, CallError, SendError, ServiceUnavailable
from ariane_sdk.message import Message
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.status import error_from_status
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.accumulator.topic_info import NO_OPTIONS, TopicInfo
from ariane_sdk.producer.sending.table_wire import table_request
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
    """The outcome of a batch, and its error."""

    verdict: Verdict
    """The outcome."""
    error: CallError | None = None
    """The error, unless it is stored."""


class OutboxSends:
    """Chooses queues, and sends batches."""

    def __init__(self, session: Session, *, timeout_s: float, random: Random) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._random = random
        self._topics: dict[str, TopicInfo] = {}

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
            info = self._topics.get(topic)
            if info is None:
                first = self._random.getrandbits(16)
                info = self._topics[topic] = TopicInfo(topic, sticky_first=first)
            if info.route != route:
                info.follow(route)
        return refused

    def group_queue(self, topic: str, message_group: str) -> MessageQueue | None:
        """The queue of a message group; None while it is unknown."""
        try:
            return self._topics[topic].pinned_queue(
                Message(topic, b"", message_group=message_group), NO_OPTIONS
            )
        except ArianeError:
            return None

    def next_queue(
        self, topic: str, is_free: Callable[[MessageQueue], bool]
    ) -> MessageQueue | None:
        """The next queue for messages without a message group; None if no queue is free."""
        info = self._topics[topic]
        tries = len(info.route.write_queues) if info.route is not None else 0
        for _ in range(tries):
            try:
                queue = info.next_queue(lambda _broker_name: True)
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
        request = _request(queue, sequence, rows)
        peer = f"broker {queue.broker_name} at {broker.primary_address}"
        call = self._session.connections.append_records(
            broker.primary_address, request, self._timeout_s
        )
        for other in (await answer_of(call, peer)).table_result.rows:
            if other.HasField("error"):
                raise error_from_status(other.error, peer=peer)
        return Outcome(Verdict.STORED)


def outbox_row(queue: MessageQueue) -> Row:
    """A row for messages of an outbox, all of which have their ids."""
    topic = TopicProperties(queue.topic, id_bytes=0, sequenced=True)
    return Row(queue, topic, choose_other=None, sequenced=True)


def add_message(row: Row, message: Message, unique_id: str, born_ms: int) -> int:
    """Add a message to a row; returns the bytes of its record.

    Raises:
        RecordError: The record format cannot hold the message, or it has no id.
    """
    if not unique_id:
        raise IllegalProperty("a message of an outbox has a unique id")
    properties = row.topic_properties.encode(
        tag=message.tag,
        keys=message.keys,
        unique_id=unique_id,
        properties=message.stored_properties,
        message_group=message.message_group,
        flag=message.flag,
    )
    return row.add(bytes(message.body), properties, born_ms, None)


def _request(
    queue: MessageQueue, sequence: ProducerSequence, outbox_rows: Sequence[OutboxRow]
) -> bytes:
    """Encode a request of one row: what was recorded together."""
    row = outbox_row(queue)
    for each in outbox_rows:
        add_message(row, each.message, each.unique_id, each.born_timestamp_ms)
    row.sequence = sequence
    no_new_ids = UniqueIds([IdRun("", 0, row.count)])
    return table_request([row], encode_rows([row], no_new_ids))


def _verdict(error: CallError, sequence: ProducerSequence, count: int) -> Verdict:
    if error.reason == SEQUENCE_PASSED:
        # Only the recorded batch is ever sent under these numbers.
        passed = int(error.metadata.get("expected", 0)) >= sequence.first_sequence + count
        return Verdict.STORED if passed else Verdict.RENUMBER
    if error.reason in {SEQUENCE_GAP, PRODUCER_FENCED}:
        return Verdict.RENUMBER
    return Verdict.UNKNOWN if error.outcome_unknown else Verdict.REFUSED
