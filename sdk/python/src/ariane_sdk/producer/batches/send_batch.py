"""One batch: records for one message queue, the state of sending, and the waiting senders."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from typing import Any, Final, TypeAlias

import numpy as np

from ariane.broker.v1.send_service_pb2 import AppendResult
from ariane_record import BlockEncoder, ProducerSequence, RecordTable
from ariane_record.encoding.loose_block import LooseBlock
from ariane_record.encoding.withdrawal import take_back
from ariane_record.layout import PROPERTIES_BYTES_MAX, ByteBuffer
from ariane_record.single.producer_sequence import stored_sequence
from ariane_record.single.recall_handle import RecallHandle
from ariane_sdk.checks.delay import AFTER_DELAYS, AT_ONCE, delay_ms, delivery_time_ms
from ariane_sdk.checks.demand import Demand
from ariane_sdk.errors import CallError, SendError
from ariane_sdk.message import AcknowledgedLevel, Message, SendResult, send_results
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.sending.append_wire import EncodedBatch, encoded_batch

RECORD_OVERHEAD_BYTES_MAX: Final = 1024 + PROPERTIES_BYTES_MAX
"""The most bytes of a record besides its body: header, topic, properties."""

KEY_HASH_BYTES: Final = 4
DELIVERY_TIME_BYTES: Final = 8
COLUMN_BYTES: Final = 4 + 4 + 1 + KEY_HASH_BYTES
"""Columns of one record beside its keys: size, tag code, number of keys, hash of the unique id."""

ChooseQueue: TypeAlias = Callable[[Callable[[str], bool]], MessageQueue]
"""Chooses a queue, preferably on a broker that the given function welcomes."""

_EMPTY: Final[list[Any]] = []
"""Shared by batches that need no list of their own; never changed. A list for each of many tiny
batches would be one more object that the garbage collector scans."""

_NO_REFUSALS: Final[dict[str, float]] = {}
"""Shared by batches that no broker has refused; never changed."""

LEVELS: Final = {level.value: level for level in AcknowledgedLevel}
"""By their numbers in the contract."""


class SendBatch:
    """Takes messages while it is open; then it is sent, perhaps repeatedly; then it is settled.

    The records do not name their queue; the broker fills it in. So a batch that is not pinned can
    go to any queue of its topic, as long as no broker may have stored it.

    Attributes:
        topic: The topic of all messages.
        queue: The queue that the batch goes to.
        pinned: Whether the batch must go to this queue, in order with others for it.
        open: Whether the batch still takes messages.
        deadline_s: When the batch is given up, by the monotonic clock.
        not_before_s: The earliest time to send the batch (again), by the monotonic clock.
        repeat_count: Repeats so far after errors that limit the number of repeats.
        failed_rounds: Rounds in which every broker that could take the batch has refused it; for a
            pinned batch, the number of its refusals.
        refused_until_s: The brokers that refused the batch in this round, each with the monotonic
            time before which it asked not to be tried again.
        last_refusal: The latest refusal.
        in_flight: Whether a call carries the batch now.
        maybe_stored: Whether one of the calls may have stored the batch.
        sequence: The sequence numbers under which the batch may be stored, or is about to be sent;
            they count within its queue.
        outcomes: The results of the messages; None until the batch is settled, and after a failure.
        error: Why the batch failed.
        sent_in: Sampled spans in which messages were sent, as W3C trace contexts; not all of them.
    """

    __slots__ = (
        "_block",
        "_block_sequence",
        "_body_bytes_max",
        "_choose_other",
        "_delay_kind",
        "_delays_ms",
        "_delivery_times_ms",
        "_done",
        "_encoder",
        "_futures",
        "_key_bytes",
        "_sequenced",
        "_unique_ids",
        "_withdrawn",
        "deadline_s",
        "demand",
        "error",
        "failed_rounds",
        "in_flight",
        "last_refusal",
        "maybe_stored",
        "not_before_s",
        "open",
        "outcomes",
        "pinned",
        "queue",
        "refused_until_s",
        "repeat_count",
        "sent_in",
        "sequence",
        "topic",
    )

    def __init__(
        self,
        queue: MessageQueue,
        *,
        choose_other: ChooseQueue | None,
        body_bytes_max: int,
        sequenced: bool,
        delay_kind: int = AT_ONCE,
    ) -> None:
        """Open a batch; ``queue`` is its first choice, and its only one without ``choose_other``.

        An empty batch has room for one body of ``body_bytes_max``. ``sequenced``: whether the batch
        gets sequence numbers before it is sent. ``delay_kind``: the kind of delay of all messages.
        """
        self.topic = queue.topic
        self.queue = queue
        self.pinned = choose_other is None
        self._choose_other = choose_other
        self.open = True
        self.demand: Demand | None = None
        self.deadline_s = 0.0
        self.not_before_s = 0.0
        self.repeat_count = 0
        self.failed_rounds = 0
        self.refused_until_s = _NO_REFUSALS
        self.last_refusal: CallError | None = None
        self.in_flight = False
        self.maybe_stored = False
        self.sequence: ProducerSequence | None = None
        self.outcomes: Sequence[SendResult | SendError] | None = None
        self.error: SendError | None = None
        self.sent_in: tuple[str, ...] = ()
        self._sequenced = sequenced
        self._body_bytes_max = body_bytes_max
        # Made on demand: a tiny batch of plain messages never needs it, and costs little else.
        self._encoder: BlockEncoder | None = None
        self._block: RecordTable | LooseBlock | None = None
        self._block_sequence: ProducerSequence | None = None
        self._key_bytes = 0
        self._unique_ids: list[str] = _EMPTY
        self._withdrawn: list[int] = _EMPTY
        self._delay_kind = delay_kind
        # When each message is to be delivered; for delays by our clock, which only people see.
        self._delivery_times_ms: list[int] = [] if delay_kind < AT_ONCE else _EMPTY
        self._delays_ms: list[int] = [] if delay_kind == AFTER_DELAYS else _EMPTY
        self._futures: list[asyncio.Future[SendResult] | None] = []
        self._done: asyncio.Future[None] | None = None

    @property
    def movable(self) -> bool:
        """Whether any queue will do: the batch is not pinned, and surely not stored yet."""
        return not self.pinned and self.sequence is None

    @property
    def count(self) -> int:
        """Number of messages in the batch."""
        return len(self._unique_ids)

    @property
    def next_place(self) -> int:
        """The place of the next message: how many were ever added."""
        return self.count + len(self._withdrawn)

    @property
    def size_bytes(self) -> int:
        """Size of the records in bytes."""
        if self._block is not None:
            return self._block.size_bytes
        return 0 if self._encoder is None else self._encoder.size_bytes

    @property
    def wire_bytes(self) -> int:
        """Size of records and columns on the wire, in bytes."""
        return self.size_bytes + COLUMN_BYTES * self.count + self._key_bytes

    @property
    def settled(self) -> bool:
        """Whether the messages have their outcomes."""
        return self.outcomes is not None or self.error is not None

    def add(
        self,
        message: Message,
        unique_id: str,
        born_timestamp_ms: int,
        future: asyncio.Future[SendResult] | None,
        *,
        body: ByteBuffer,
        system_flag: int = 0,
    ) -> int:
        """Encode one more message, with its body as given; returns the bytes of its record.

        Raises:
            RecordError: The record format cannot hold the message; the batch is unchanged.
        """
        size = self._encoding().add(
            body,
            tag=message.tag,
            keys=message.keys,
            unique_id=unique_id,
            properties=message.stored_properties,
            message_group=message.message_group,
            flag=message.flag,
            system_flag=system_flag,
            born_timestamp_ms=born_timestamp_ms,
        )
        if message.keys:
            self._key_bytes += KEY_HASH_BYTES * len(message.keys)
        if self._delay_kind < AT_ONCE:
            self._key_bytes += DELIVERY_TIME_BYTES
            self._delivery_times_ms.append(delivery_time_ms(message, born_timestamp_ms))
            if self._delay_kind == AFTER_DELAYS:
                self._delays_ms.append(delay_ms(message))
        self._unique_ids.append(unique_id)
        self._futures.append(future)
        return size

    def withdraw(self, future: asyncio.Future[SendResult]) -> int:
        """Take a message back unless a call carries the batch; returns the bytes that it took.

        Returns 0 if the message is not here or was already sent.
        """
        if not self.open or future not in self._futures:
            return 0
        position = self._futures.index(future)
        size_bytes = self.size_bytes
        if not self._take_back(position):
            return 0
        del self._futures[position]
        # Places count withdrawn messages too: the places of the others stay as they are.
        place = position
        for withdrawn in self._withdrawn:
            place += withdrawn <= place
        self._withdrawn = sorted([*self._withdrawn, place])
        return size_bytes - self.size_bytes

    def _take_back(self, position: int) -> bool:
        """Take the record of a message out, if the batch can do without it."""
        if not take_back(self._encoding(), position):
            return False
        del self._unique_ids[position]
        if self._delivery_times_ms:
            del self._delivery_times_ms[position]
        if self._delays_ms:
            del self._delays_ms[position]
        return True

    def _encoding(self) -> BlockEncoder:
        """The encoder of single messages."""
        encoder = self._encoder
        if encoder is None:
            encoder = self._encoder = BlockEncoder(
                self.topic,
                size_bytes_max=2 * (self._body_bytes_max + RECORD_OVERHEAD_BYTES_MAX),
                sequenced=self._sequenced,
            )
            self._unique_ids = []
        return encoder

    @property
    def fits_table(self) -> bool:
        """Whether a table can describe the batch: no delay, no demand beyond the broker's level."""
        return self._delay_kind == AT_ONCE and self.demand is None

    def seal(self) -> RecordTable | LooseBlock:
        """Close the batch, and return its records with the sequence of this call."""
        self.open = False
        self._block = self._sealed()
        return self._block

    def to_wire(self) -> EncodedBatch:
        """Close the batch, and encode it."""
        block = self.seal()
        return encoded_batch(
            self.queue,
            block,
            self.sequence,
            delay_level=max(self._delay_kind, AT_ONCE),
            delivery_times_ms=b"" if self._delays_ms else self._times_on_wire(),
            delays_ms=np.array(self._delays_ms, "<i8").tobytes(),
            demand=self.demand,
        )

    def _times_on_wire(self) -> bytes:
        """Encode the delivery time of each message; empty for delivery at once."""
        times_ms = self._delivery_times_ms
        return np.array(times_ms, "<i8").tobytes() if times_ms else b""

    def _sealed(self) -> RecordTable | LooseBlock:
        """The records, with the sequence of this call."""
        sequence, block = self.sequence, self._block
        if block is None:
            self._block_sequence = sequence
            return self._encoding().finish(sequence)
        if sequence is not None and sequence != self._block_sequence:
            self._block_sequence = sequence
            if isinstance(block, LooseBlock):
                return block.at(sequence)
            said = stored_sequence(block.records)
            if said is None or said.sequence != sequence:
                return block.with_sequence(sequence)
        return block

    def wait_a_round(self, until_s: float) -> None:
        """Begin a round of tries, with the first one no earlier than this monotonic time."""
        refused_s = self.refused_until_s
        self.not_before_s = max(until_s, refused_s.get(self.queue.broker_name, 0.0))
        self.failed_rounds += 1
        # A broker that asked for more time than this has refused the next round as well.
        self.refused_until_s = {
            name: then_s for name, then_s in refused_s.items() if then_s > self.not_before_s
        }

    def go_elsewhere(self, is_welcome: Callable[[str], bool]) -> None:
        """Choose another queue, if possible of a welcome broker; a batch that cannot move stays.

        Raises:
            SendError: No broker takes messages for the topic.
        """
        if self._choose_other is not None and self.movable:
            self.queue = self._choose_other(is_welcome)

    async def wait_settled(self) -> None:
        """Wait until the batch is settled."""
        if self.settled:
            return
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._done)

    def settle(self, result: AppendResult, broker_address: str) -> None:
        """Give every sender the result of a batch that was stored."""
        results = self._results(result, broker_address)
        self.outcomes = results
        if self._futures:  # There may be no futures: senders may wait for the batch as a whole.
            for future, send_result in zip(self._futures, results, strict=True):
                if future is not None and not future.done():
                    future.set_result(send_result)
        self._finish()

    def _results(self, result: AppendResult, broker_address: str) -> Sequence[SendResult]:
        """Make the result of each message."""
        block = self._block
        if block is None:
            raise AssertionError("a batch is stored after it was sent")
        first = result.first_queue_offset
        # The list ends with one entry more, for the end of the last record.
        commit_log_offsets = accumulate(
            block.sizes.tolist(), initial=result.first_commit_log_offset
        )
        return send_results(
            repeat(self.queue),
            range(first, first + self.count),
            commit_log_offsets,
            self._unique_ids,
            acknowledged_level=LEVELS[result.acknowledged_level],
            store_timestamp_ms=result.store_time.ToMilliseconds(),
            broker_address=broker_address,
            duplicate=result.duplicate,
            recall_handles=self._recall_handles(),
        )

    def _recall_handles(self) -> list[str] | None:
        """The recall handle of each message."""
        if not self._delivery_times_ms:
            return None
        broker_name = self.queue.broker_name
        return [
            RecallHandle(self.topic, broker_name, time_ms, unique_id).encode()
            for time_ms, unique_id in zip(self._delivery_times_ms, self._unique_ids, strict=True)
        ]

    def fail(self, cause: CallError) -> None:
        """Give every sender an error: the batch was not acknowledged.

        The error says when an earlier call may have stored the batch.
        """
        self.open = False
        unknown = self.maybe_stored or cause.outcome_unknown
        certainty = "; it may have been stored" if unknown else "; it was not stored"
        # The text of a service may consist of sentences.
        said = f"{str(cause).removesuffix('.')}{certainty}"
        self.error = self._send_error(said, cause, unknown=unknown)
        for future in self._futures:
            if future is not None and not future.done():
                # Each future gets an error of its own: every raise adds to the traceback of an
                # error.
                future.set_exception(self._send_error(said, cause, unknown=unknown))
        self._finish()

    def outcomes_of(self, start: int, count: int) -> Sequence[SendResult | SendError]:
        """Return the outcomes of neighbouring messages, once the batch is settled.

        Args:
            start: The place of the first message, as ``next_place`` gave it.
            count: How many messages, of which none was withdrawn.
        """
        start -= bisect_left(self._withdrawn, start)
        if self.outcomes is not None:
            return self.outcomes[start : start + count]
        if self.error is None:
            raise AssertionError("the batch is not settled")
        return [self.error] * count

    def _send_error(self, text: str, cause: CallError, *, unknown: bool) -> SendError:
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

    def _finish(self) -> None:
        self._futures = _EMPTY
        self._block = None
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
