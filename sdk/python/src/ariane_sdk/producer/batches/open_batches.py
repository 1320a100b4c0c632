"""The open batches: which one takes the next message for a queue, or for any queue.

Plain messages have a body, perhaps a tag, and nothing else; most messages are plain. A plain
message is not encoded when it comes: it only joins the open batch of its topic or, with very many
topics, a bundle. Everything else is done for many messages together when they are sent.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ariane_record.encoding.plain_topic import TagShape
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.checks.delay import AT_ONCE
from ariane_sdk.checks.demand import Demand
from ariane_sdk.message import SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.grouped_batch import GroupedBatch
from ariane_sdk.producer.batches.send_batch import COLUMN_BYTES, ChooseQueue, SendBatch
from ariane_sdk.producer.batches.singles_batch import NEVER_CUT, SinglesBatch
from ariane_sdk.producer.batches.topic_lane import TopicLane
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

BUNDLE_BYTES_MIN: Final = 64 << 10
"""Where bundles had fewer bytes, single batches are sent in fewer calls."""


class OpenBatches:
    """Finds open batches in the lanes of topics, opens new ones, and adds plain messages."""

    __slots__ = (
        "_batch_bytes_max",
        "_body_bytes_max",
        "_bundle_bytes_max",
        "_clock",
        "_senders",
        "_sending",
        "_settings",
        "_unique_ids",
        "_unsettled",
    )

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
        self._senders = sending.senders
        self._unsettled = sending.unsettled
        self._settings = settings
        self._batch_bytes_max = settings.batch_bytes_max
        self._bundle_bytes_max = min(settings.batch_bytes_max, settings.request_bytes_max)
        self._unique_ids = unique_ids
        # A body that fits into a batch can be encoded, however low the limit of a single body is.
        self._body_bytes_max = max(settings.body_bytes_max, settings.batch_bytes_max)

    def add_plain(
        self,
        lane: TopicLane,
        body: bytes,
        shape: TagShape,
        future: asyncio.Future[SendResult],
    ) -> bool:
        """Add a plain message to the open batch or bundle of its topic.

        Returns:
            Whether the message was added; False if the open batch has messages that are not plain.

        Raises:
            SendError: No broker takes messages for the topic.
        """
        bundle = lane.bundle
        if bundle is not None and bundle.open:
            before = bundle.size_bytes
            if before + len(body) <= self._bundle_bytes_max:
                bundle.add(lane.row, body, shape, self._clock.now_ms(), future)
                self._unsettled.size_bytes += bundle.size_bytes - before
                return True
        batch = lane.open_unpinned
        run = None if batch is None else batch.run
        if batch is None or not batch.open:
            queue = lane.next_queue(self._sending.is_welcome)
            if self._senders[queue.broker_name].bundling and self._join_bundle(
                lane, queue, body, shape, future
            ):
                return True
            batch = self.next_unpinned(lane, queue, len(body))
        elif run is None:
            batch = self.unpinned(lane, len(body))
        elif len(run.bodies) >= batch.cut_count or (
            run.bodies
            and run.size_bytes + COLUMN_BYTES * len(run.bodies) + len(body) > self._batch_bytes_max
        ):
            queue = lane.next_queue(self._sending.is_welcome)
            batch = self.next_unpinned(lane, queue, len(body))
        run = batch.run
        if run is None:
            return False
        self._unsettled.size_bytes += batch.add_plain(body, shape, self._clock.now_ms(), future)
        if len(run.bodies) == 1:
            # As ``Sending.add``, without one more call on the way of a single send.
            self._unsettled.add(batch)
            self._senders[batch.queue.broker_name].add(batch)
        return True

    def _join_bundle(
        self,
        lane: TopicLane,
        queue: MessageQueue,
        body: bytes,
        shape: TagShape,
        future: asyncio.Future[SendResult],
    ) -> bool:
        """Begin a row in a bundle, if the broker wants plain messages bundled now."""
        if self._bundle_bytes_max < BUNDLE_BYTES_MIN:
            return False
        if lane.bundle is not None:
            # A bundle that is still open had no room for this topic's message. If the topic came
            # back to it with a smaller message, the bundle would have two batches for one queue.
            lane.bundle.full = True
        bundle = self._sending.bundle_for(queue.broker_name, self._bundle_bytes_max - len(body))
        if bundle is None:
            return False
        before = bundle.size_bytes
        row = bundle.join(queue, lane.plain, lane.choose_queue)
        bundle.add(row, body, shape, self._clock.now_ms(), future)
        self._unsettled.size_bytes += bundle.size_bytes - before
        lane.bundle, lane.row = bundle, row
        return True

    def fits(self, batch: SendBatch, body_bytes: int) -> bool:
        """Whether a batch has room for one more body of this size."""
        return batch.open and (
            not batch.count or batch.wire_bytes + body_bytes <= self._batch_bytes_max
        )

    def batch_for(
        self,
        lane: TopicLane,
        queue: MessageQueue | None,
        body_bytes: int,
        delay_kind: int,
        demand: Demand | None,
        *,
        grouped: bool,
    ) -> SinglesBatch:
        """Return the batch that takes a message for a queue; None as queue means any queue.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        if queue is None:
            return self.unpinned(lane, body_bytes, delay_kind=delay_kind, demand=demand)
        return self.pinned(
            lane, queue, body_bytes, delay_kind=delay_kind, demand=demand, grouped=grouped
        )

    def pinned(
        self,
        lane: TopicLane,
        queue: MessageQueue,
        body_bytes: int,
        *,
        delay_kind: int = AT_ONCE,
        demand: Demand | None = None,
        grouped: bool,
    ) -> SinglesBatch:
        """Return the batch that takes a message for this very queue.

        Messages that belong to the queue by their groups, and messages whose senders named the
        queue, do not share a batch: only the former can move to another queue. Messages of
        different demands do not share one either. Of all these the queue has one open batch, since
        a later message must not join a batch before an earlier message's.
        """
        if delay_kind == AT_ONCE:
            batch = lane.open_pinned.get(queue)
        else:
            batch = lane.open_apart.get((queue, delay_kind, demand))
        if (
            batch is not None
            and self.fits(batch, body_bytes)
            and isinstance(batch, GroupedBatch) == grouped
            and batch.demand == demand
        ):
            return batch
        batch = self._new_pinned(lane, queue, delay_kind, demand, grouped=grouped)
        if delay_kind == AT_ONCE:
            lane.open_pinned[queue] = batch
        else:
            lane.open_apart[queue, delay_kind, demand] = batch
        return batch

    def unpinned(
        self,
        lane: TopicLane,
        body_bytes: int,
        *,
        delay_kind: int = AT_ONCE,
        demand: Demand | None = None,
    ) -> SinglesBatch:
        """Return the batch that takes a message for any queue.

        Raises:
            TopicRefused: No broker takes messages for the topic.
        """
        if delay_kind == AT_ONCE and demand is None:
            batch = lane.open_unpinned
        else:
            batch = lane.open_apart.get((None, delay_kind, demand))
        if batch is not None and batch.count < batch.cut_count and self.fits(batch, body_bytes):
            return batch
        queue = lane.next_queue(self._sending.is_welcome)
        return self.next_unpinned(lane, queue, body_bytes, delay_kind=delay_kind, demand=demand)

    def next_unpinned(
        self,
        lane: TopicLane,
        queue: MessageQueue,
        body_bytes: int,
        *,
        delay_kind: int = AT_ONCE,
        demand: Demand | None = None,
    ) -> SinglesBatch:
        """Return the batch for this queue, and make it the one for messages to any queue."""
        batch = lane.open_shares.get((queue, delay_kind, demand))
        if batch is not None and batch.queue == queue and self.fits(batch, body_bytes):
            batch.cut_count = batch.count + self._cut_count(lane, queue, delay_kind, demand)
        else:
            batch = self._new_unpinned(lane, queue, delay_kind, demand)
        if delay_kind == AT_ONCE and demand is None:
            lane.open_unpinned = batch
        else:
            lane.open_apart[None, delay_kind, demand] = batch
        return batch

    def _new_pinned(
        self,
        lane: TopicLane,
        queue: MessageQueue,
        delay_kind: int,
        demand: Demand | None,
        *,
        grouped: bool,
    ) -> SinglesBatch:
        batch: SinglesBatch
        if grouped:
            batch = GroupedBatch(
                queue,
                body_bytes_max=self._body_bytes_max,
                sequenced=self._settings.idempotent,
                delay_kind=delay_kind,
                plain_topic=lane.plain,
                unique_ids=self._unique_ids,
            )
        else:
            batch = self._new_single(queue, None, lane, delay_kind)
        batch.demand = demand
        return batch

    def _new_single(
        self,
        queue: MessageQueue,
        choose_other: ChooseQueue | None,
        lane: TopicLane,
        delay_kind: int,
        cut_count: int = NEVER_CUT,
    ) -> SinglesBatch:
        return SinglesBatch(
            queue,
            choose_other=choose_other,
            body_bytes_max=self._body_bytes_max,
            sequenced=self._settings.idempotent,
            delay_kind=delay_kind,
            plain_topic=lane.plain,
            unique_ids=self._unique_ids,
            cut_count=cut_count,
        )

    def _new_unpinned(
        self, lane: TopicLane, queue: MessageQueue, delay_kind: int, demand: Demand | None
    ) -> SinglesBatch:
        cut_count = self._cut_count(lane, queue, delay_kind, demand)
        batch = self._new_single(queue, lane.choose_queue, lane, delay_kind, cut_count)
        batch.demand = demand
        if self._settings.spread_count:
            lane.open_shares[queue, delay_kind, demand] = batch
        return batch

    def _cut_count(
        self, lane: TopicLane, queue: MessageQueue, delay_kind: int, demand: Demand | None
    ) -> int:
        """Number of messages after which a batch for any queue hands over to the next queue."""
        if not lane.has_several_queues:
            return NEVER_CUT
        cut_count = self._senders[queue.broker_name].cut_count
        spread_count = self._settings.spread_count
        if spread_count and lane.singles_flow.moment(self._clock.monotonic_s()):
            # With much in flight, a few large shares spread as evenly as many small ones.
            return spread_count if cut_count == NEVER_CUT else max(spread_count, cut_count // 8)
        current = lane.open_unpinned
        if delay_kind != AT_ONCE or demand is not None or (current is not None and current.open):
            # Two calls share the messages of one turn; more batches would only delay one another.
            return NEVER_CUT
        return cut_count
