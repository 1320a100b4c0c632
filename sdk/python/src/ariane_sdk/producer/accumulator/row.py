"""A row: messages for one queue that are sent, stored and answered together.

A row takes messages while it is open. Then it is sent, perhaps repeatedly, and settled at last.
Messages wait as they came, and are encoded when the row is sent, together with those of all other
rows in the same request; large runs and Arrow tables come encoded (``table``)::

    row       topic, queue, kind of delay, demand, sequence
    messages  (body, properties, born, future, time, message)   one tuple each, as they came
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ariane_record.encoding.message_properties import EncodedProperties, TopicProperties
from ariane_record.encoding.record_table import RecordTable
from ariane_record.encoding.row_encoder import MessageRow
from ariane_record.single.message_id import UniqueIds
from ariane_record.single.producer_sequence import SEQUENCE_BYTES
from ariane_record.single.recall_handle import RecallHandle
from ariane_sdk.checks.delay import AFTER_DELAYS, AT_ONCE
from ariane_sdk.checks.demand import Demand
from ariane_sdk.errors import CallError, SendError
from ariane_sdk.message import Message, SendResult, new_send_result
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.send_results import StoredAs, StoredMessages

KEY_HASH_BYTES: Final = 4
DELIVERY_TIME_BYTES: Final = 8
COLUMN_BYTES: Final = 4 + 4 + 1 + KEY_HASH_BYTES
"""Columns of one record beside its keys: size, tag code, number of keys, hash of the unique id."""

ChooseQueue: TypeAlias = Callable[[Callable[[str], bool]], MessageQueue]
"""Chooses a queue, preferably on a broker that the given function welcomes."""

RowMessage: TypeAlias = tuple[
    bytes, EncodedProperties, int, "asyncio.Future[SendResult] | None", int, Message | None
]
"""A message of a row: body; properties; when it was made; who waits for it; when it is due, or how
long it is delayed, in milliseconds, 0 for a message of another kind; the message as it was given,
if its row can be taken apart. A plain tuple: a class of its own costs as much as all else here."""

NO_MAX: Final = 1 << 62
"""More messages than a row ever has."""


class Row(MessageRow):
    """Messages for one queue, and the state of their sending.

    The records do not name their queue; the broker fills it in. So a row that is not pinned can go
    to any queue of its topic, as long as no broker may have stored it.

    The defaults stand in the class: most rows never change them.
    """

    topic: str
    """The topic of all messages."""
    pinned: bool
    """Whether the row must go to its queue, in order with others for it."""
    in_order: bool
    """Whether only one row of its queue may be in flight. Half messages have no order yet."""
    count_max = NO_MAX
    """Number of messages after which messages for any queue go on to the next queue."""
    open = True
    """Whether the row still takes messages."""
    messages: list[RowMessage]
    """The messages, until the row has its outcome; none of a row that came encoded."""
    count = 0
    """Number of messages in the row."""
    wire_bytes = 0
    """Size of records and columns on the wire, in bytes."""
    table: RecordTable | None = None
    """The records, once they are needed by themselves; None before."""
    unique_ids: UniqueIds | None = None
    """The ids of ``table``."""
    times_ms: NDArray[np.int64] | None = None
    """When each message of a row that came encoded is due; None for at once."""
    deadline_s = 0.0
    """When the row is given up, by the monotonic clock."""
    not_before_s = 0.0
    """The earliest time to send the row (again), by the monotonic clock."""
    relayed = False
    """Whether messages have their ids from elsewhere."""
    repeat_count = 0
    """Repeats so far after errors that limit the number of repeats."""
    failed_rounds = 0
    """Rounds in which every broker that could take the row has refused it; for a pinned row, the
    number of its refusals."""
    refused_until_s: Mapping[str, float] = MappingProxyType({})
    """The brokers that refused the row in this round, each with the monotonic time before which it
    asked not to be tried again."""
    last_refusal: CallError | None = None
    """The latest refusal."""
    in_flight = False
    """Whether a call carries the row now."""
    maybe_stored = False
    """Whether one of the calls may have stored the row."""
    sequence_bytes: int
    """Room in the first record for sequence numbers: those under which the row may be stored, or is
    about to be sent. They count within its queue."""
    settled = False
    """Whether the messages have their outcomes."""
    stored: StoredMessages | None = None
    """The messages of a row that came encoded and is stored."""
    error: SendError | None = None
    """Why the row failed."""
    trace_parents: tuple[str, ...] = ()
    """Sampled spans in which messages were sent, as W3C trace contexts; not all of them."""
    _done: asyncio.Future[None] | None = None

    def __init__(
        self,
        queue: MessageQueue,
        topic_properties: TopicProperties,
        *,
        choose_other: ChooseQueue | None,
        sequenced: bool,
        grouped: bool = False,
        kind: int = AT_ONCE,
        demand: Demand | None = None,
        half_of: str = "",
    ) -> None:
        """Begin without messages.

        Args:
            queue: The queue that the row goes to: its first choice, and its only one without
                another.
            topic_properties: What encodes the properties of its messages.
            choose_other: Chooses another queue of the topic; None: the row is pinned to its queue.
            sequenced: Whether the row gets sequence numbers before it is sent.
            grouped: Whether message groups brought it to its queue: it is taken apart if that
                disappears.
            kind: The kind of delay of all messages: a level, or one of the constants of ``delay``.
            demand: The level that all messages must reach; None for the broker's own.
            half_of: The producer group of the one message, if it is a half message; else empty.
        """
        self.queue = queue
        self.topic = queue.topic
        self.topic_properties = topic_properties
        self.choose_other = choose_other
        self.grouped, self.kind, self.demand, self.half_of = grouped, kind, demand, half_of
        self.pinned = choose_other is None
        self.in_order = not half_of and (self.pinned or sequenced)
        self.sequence_bytes = SEQUENCE_BYTES if sequenced else 0
        self.messages = []

    @property
    def movable(self) -> bool:
        """Whether any queue will do: the row is not pinned, and surely not stored yet."""
        stays = self.pinned or self.sequence is not None or (self.half_of and self.maybe_stored)
        return not stays

    @property
    def stored_once(self) -> bool:
        """Whether the broker knows a repeat: by its sequence, or by the id of a half message."""
        return self.sequence_bytes > 0 or bool(self.half_of)

    def add(  # noqa: PLR0917 - one call for each message: by position it costs less.
        self,
        body: bytes,
        properties: EncodedProperties,
        born_ms: int,
        future: asyncio.Future[SendResult] | None,
        time_ms: int = 0,
        message: Message | None = None,
    ) -> int:
        """Add a message; returns the bytes of its record. For the arguments see ``RowMessage``."""
        size = len(body) + properties.overhead_bytes
        if not self.messages:
            size += self.sequence_bytes
        self.messages.append((body, properties, born_ms, future, time_ms, message))
        self.count += 1
        self.size_bytes += size
        self.wire_bytes += size + COLUMN_BYTES
        if properties.unique_id:
            self.relayed = True
        if properties.key_hashes:
            self.wire_bytes += KEY_HASH_BYTES * len(properties.key_hashes)
        if time_ms:
            self.wire_bytes += DELIVERY_TIME_BYTES
        return size

    def take_encoded(
        self, table: RecordTable, unique_ids: UniqueIds, times_ms: NDArray[np.int64] | None = None
    ) -> None:
        """Fill the row at once with encoded messages that are awaited as a whole."""
        self.open = False
        self.table, self.unique_ids, self.times_ms = table, unique_ids, times_ms
        self.count, self.size_bytes = table.count, table.size_bytes
        self.wire_bytes = self.size_bytes + COLUMN_BYTES * table.count
        self.wire_bytes += KEY_HASH_BYTES * (len(table.key_hashes) - table.count)
        if times_ms is not None:
            self.wire_bytes += DELIVERY_TIME_BYTES * len(times_ms)

    def withdraw(self, future: asyncio.Future[SendResult]) -> int:
        """Take a message back unless a call carries the row; returns the bytes that it took.

        Returns 0 if the message is not here or was already sent.
        """
        if not self.open:
            return 0
        for position, (_, _, _, waiting, _, _) in enumerate(self.messages):
            if waiting is future:
                before, messages = self.size_bytes, self.messages
                self.messages, self.count, self.size_bytes, self.wire_bytes = [], 0, 0, 0
                for message in messages[:position] + messages[position + 1 :]:
                    self.add(*message)
                return before - self.size_bytes
        return 0

    def wait_a_round(self, until_s: float) -> None:
        """Begin a round of tries, with the first one no earlier than this monotonic time."""
        refused_s = self.refused_until_s
        self.not_before_s = max(until_s, refused_s.get(self.queue.broker_name, 0.0))
        self.failed_rounds += 1
        # A broker that asked for more time than this has refused the next round as well.
        self.refused_until_s = {
            name: then_s for name, then_s in refused_s.items() if then_s > self.not_before_s
        }

    async def wait_settled(self) -> None:
        """Wait until the row is settled."""
        if not self.settled:
            if self._done is None:
                self._done = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._done)

    def settle(
        self,
        first_queue_offset: int,
        log_offsets: Iterable[int],
        unique_ids: Sequence[str],
        how: StoredAs,
    ) -> None:
        """Give every sender the result of a row that was stored.

        Args:
            first_queue_offset: Queue offset of the first message; the others follow.
            log_offsets: Byte position of each record in the commit log.
            unique_ids: The id of each message.
            how: How they were stored.
        """
        messages = self.messages
        if self.relayed:
            each = zip(messages, unique_ids, strict=True)
            unique_ids = [properties.unique_id or new_id for (_, properties, *_), new_id in each]
        handles: Iterable[str] = repeat("", len(messages))
        if self.kind < AT_ONCE:
            handles = self._recall_handles(unique_ids)
        queue, offset = self.queue, first_queue_offset
        columns = zip(messages, log_offsets, unique_ids, handles, strict=True)
        for (_, _, _, future, _, _), log_offset, unique_id, handle in columns:
            if future is not None and not future.done():
                result = (queue, offset, log_offset, unique_id, *how, handle)
                future.set_result(new_send_result(result))
            offset += 1
        self._finish()

    def settle_encoded(
        self, first_queue_offset: int, log_offsets: NDArray[np.int64], how: StoredAs
    ) -> None:
        """Settle a row that was encoded before this call: it came so, or was repeated.

        The results of a row that came encoded are made when they are looked at.
        """
        if self.unique_ids is None:
            raise AssertionError("the row was not encoded")
        if self.messages:
            self.settle(first_queue_offset, log_offsets.tolist(), self.unique_ids.texts(), how)
        else:
            self.stored = StoredMessages(
                self.queue, first_queue_offset, log_offsets, self.unique_ids, how
            )
            self._finish()

    def _recall_handles(self, unique_ids: Sequence[str]) -> list[str]:
        """The recall handle of each message."""
        name = self.queue.broker_name
        return [
            RecallHandle(
                self.topic,
                name,
                max(1, born_ms + time_ms) if self.kind == AFTER_DELAYS else time_ms,
                unique_id,
            ).encode()
            for (_, _, born_ms, _, time_ms, _), unique_id in zip(
                self.messages, unique_ids, strict=True
            )
        ]

    def fail(self, cause: CallError) -> None:
        """Give every sender an error: the row was not acknowledged.

        The error says when an earlier call may have stored the row.
        """
        self.open = False
        unknown = self.maybe_stored or cause.outcome_unknown
        certainty = "; it may have been stored" if unknown else "; it was not stored"
        # The text of a service may consist of sentences.
        text = f"{str(cause).removesuffix('.')}{certainty}"
        self.error = _send_error(text, cause, unknown=unknown)
        for _, _, _, future, _, _ in self.messages:
            if future is not None and not future.done():
                # Each future gets an error of its own: every raise adds to the traceback of an
                # error.
                future.set_exception(_send_error(text, cause, unknown=unknown))
        self._finish()

    def take_apart(self) -> list[tuple[Message, asyncio.Future[SendResult]]]:
        """Give the messages away; the row is sent no more, and ends once they all have outcomes.

        Returns:
            Each message, and the future that will hold its outcome.
        """
        self.open = False
        loop = asyncio.get_running_loop()
        parts = [
            (message, future or loop.create_future())
            for _, _, _, future, _, message in self.messages
        ]
        self.messages = []
        ended = asyncio.gather(*(future for _, future in parts), return_exceptions=True)
        ended.add_done_callback(lambda _: self._finish())
        return [(message, future) for message, future in parts if message is not None]

    def _finish(self) -> None:
        self.settled = True
        self.open = False
        self.messages = []
        self.table = None
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


def _send_error(text: str, cause: CallError, *, unknown: bool) -> SendError:
    error = SendError(
        text,
        reason=cause.reason,
        outcome_unknown=unknown,
        retriable=cause.retriable,
        retry_after_s=cause.retry_after_s,
        metadata=cause.metadata,
    )
    error.__cause__ = cause
    return error
