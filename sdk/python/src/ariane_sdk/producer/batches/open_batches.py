"""The batches that still take messages: which one is next for a queue, or for no particular one."""

from __future__ import annotations

from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.checks.delay import AT_ONCE
from ariane_sdk.message import MessageQueue
from ariane_sdk.producer.batches.grouped_batch import GroupedBatch
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.batches.singles_batch import SinglesBatch
from ariane_sdk.producer.batches.topic_lane import TopicLane
from ariane_sdk.producer.sending.broker_sender import NEVER_CUT
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings


class OpenBatches:
    """Finds batches in the lanes of topics, and opens new ones.

    Who puts the first message into a batch gives the batch to ``Sending``.
    """

    __slots__ = ("_body_bytes_max", "_clock", "_sending", "_settings", "_unique_ids")

    def __init__(
        self,
        sending: Sending,
        *,
        settings: ProducerSettings,
        unique_ids: UniqueIdGenerator,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._sending = sending
        self._settings = settings
        self._unique_ids = unique_ids
        # Whatever fits into a batch can be encoded, however small a single body has to be.
        self._body_bytes_max = max(settings.body_bytes_max, settings.batch_bytes_max)

    def fits(self, batch: SendBatch, body_bytes: int) -> bool:
        """Whether a batch takes one more body of so many bytes."""
        return batch.open and (
            not batch.count or batch.wire_bytes + body_bytes <= self._settings.batch_bytes_max
        )

    def pinned(
        self,
        lane: TopicLane,
        queue: MessageQueue,
        body_bytes: int,
        *,
        delay_kind: int = AT_ONCE,
        grouped: bool,
    ) -> SinglesBatch:
        """The batch that takes a message for this queue.

        Messages whose groups belong to the queue do not share a batch with those whose senders want
        it: only the former can move.
        """
        if delay_kind == AT_ONCE:
            batch = lane.open_pinned.get(queue)
        else:
            batch = lane.open_delayed.get((queue, delay_kind))
        if (
            batch is not None
            and self.fits(batch, body_bytes)
            and isinstance(batch, GroupedBatch) == grouped
        ):
            return batch
        batch = self._new_pinned(lane, queue, delay_kind, grouped=grouped)
        if delay_kind == AT_ONCE:
            lane.open_pinned[queue] = batch
        else:
            lane.open_delayed[queue, delay_kind] = batch
        return batch

    def unpinned(
        self, lane: TopicLane, body_bytes: int, *, delay_kind: int = AT_ONCE
    ) -> SinglesBatch:
        """The batch that takes a message for no particular queue.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        if delay_kind == AT_ONCE:
            batch = lane.open_unpinned
        else:
            batch = lane.open_delayed.get((None, delay_kind))
        if batch is not None and batch.count < batch.cut_count and self.fits(batch, body_bytes):
            return batch
        queue = lane.next_queue(self._sending.is_welcome)
        return self.next_unpinned(lane, queue, body_bytes, delay_kind=delay_kind)

    def next_unpinned(
        self, lane: TopicLane, queue: MessageQueue, body_bytes: int, *, delay_kind: int = AT_ONCE
    ) -> SinglesBatch:
        """The batch for this queue, which takes over the messages for no particular queue."""
        batch = lane.open_shares.get((queue, delay_kind))
        if batch is not None and batch.queue == queue and self.fits(batch, body_bytes):
            batch.cut_count = batch.count + self._cut_count(lane, queue, delay_kind)
        else:
            batch = self._new_unpinned(lane, queue, delay_kind)
        if delay_kind == AT_ONCE:
            lane.open_unpinned = batch
        else:
            lane.open_delayed[None, delay_kind] = batch
        return batch

    def _new_pinned(
        self, lane: TopicLane, queue: MessageQueue, delay_kind: int, *, grouped: bool
    ) -> SinglesBatch:
        if grouped:
            return GroupedBatch(
                queue,
                body_bytes_max=self._body_bytes_max,
                sequenced=self._settings.idempotent,
                delay_kind=delay_kind,
                plain_topic=lane.plain,
                unique_ids=self._unique_ids,
            )
        return SinglesBatch(
            queue,
            choose_other=None,
            body_bytes_max=self._body_bytes_max,
            sequenced=self._settings.idempotent,
            delay_kind=delay_kind,
            plain_topic=lane.plain,
            unique_ids=self._unique_ids,
            cut_count=NEVER_CUT,
        )

    def _new_unpinned(self, lane: TopicLane, queue: MessageQueue, delay_kind: int) -> SinglesBatch:
        batch = SinglesBatch(
            queue,
            choose_other=lane.choose_queue,
            body_bytes_max=self._body_bytes_max,
            sequenced=self._settings.idempotent,
            delay_kind=delay_kind,
            plain_topic=lane.plain,
            unique_ids=self._unique_ids,
            cut_count=self._cut_count(lane, queue, delay_kind),
        )
        if self._settings.spread_count:
            lane.open_shares[queue, delay_kind] = batch
        return batch

    def _cut_count(self, lane: TopicLane, queue: MessageQueue, delay_kind: int) -> int:
        """After how many messages a batch for no particular queue hands over to the next."""
        if not lane.has_several_queues:
            return NEVER_CUT
        cut_count = self._sending.cut_count(queue.broker_name)
        spread_count = self._settings.spread_count
        if spread_count and lane.singles_flow.moment(self._clock.monotonic_s()):
            # Where much is on its way, a few large shares are as even as many small ones.
            return spread_count if cut_count == NEVER_CUT else max(spread_count, cut_count // 8)
        current = lane.open_unpinned
        if delay_kind != AT_ONCE or (current is not None and current.open):
            # Two calls share what comes in a turn; more batches would be in each other's way.
            return NEVER_CUT
        return cut_count
