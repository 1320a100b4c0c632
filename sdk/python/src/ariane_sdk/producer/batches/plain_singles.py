"""Messages sent one by one that have a body, perhaps a tag, and nothing else: most are so.

Nothing is encoded here, and little is done for each; what can be done for many together waits until
they leave. They gather in the open batch of their topic, or, with very many topics, in a bundle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from ariane_record.encoding.plain_topic import TagShape
from ariane_sdk.checks.delay import AT_ONCE
from ariane_sdk.checks.limits import checked_tag
from ariane_sdk.checks.message_types import TYPE_ERRORS
from ariane_sdk.errors import MessageIllegal
from ariane_sdk.message import Message, MessageQueue, SendResult
from ariane_sdk.producer.batches.open_batches import OpenBatches
from ariane_sdk.producer.batches.send_batch import COLUMN_BYTES
from ariane_sdk.producer.batches.topic_lane import TopicLane
from ariane_sdk.producer.sending.send_buffer import SendBuffer
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.runtime.clock import Clock

BUNDLE_BYTES_MIN: Final = 64 << 10
"""Where bundles had fewer bytes, single batches travel in fewer calls."""


class PlainSingles:
    """Takes what is plain, and leaves the rest to others."""

    def __init__(
        self,
        lanes: Mapping[str, TopicLane],
        open_batches: OpenBatches,
        sending: Sending,
        buffer: SendBuffer,
        *,
        clock: Clock,
        body_bytes_max: int,
        batch_bytes_max: int,
        bundle_bytes_max: int,
    ) -> None:
        self._lanes = lanes
        self._sending = sending
        self._buffer = buffer
        self._clock = clock
        self._body_bytes_max = body_bytes_max
        self._batch_bytes_max = batch_bytes_max
        self._bundle_bytes_max = bundle_bytes_max
        self._open = open_batches

    def take(self, message: Message, future: asyncio.Future[SendResult]) -> bool:
        """Take a message if it is plain, and its topic known.

        Args:
            message: The message.
            future: Who waits for it.

        Returns:
            Whether it was; whatever may be wrong with another is not judged here.

        Raises:
            SendError: No broker takes messages for the topic.
        """
        try:
            lane = self._lanes.get(message.topic)
            if lane is None or lane.route is None:
                return False
            body = message.body
            shape = lane.plain.shapes.get(message.tag) or self._new_shape(lane, message.tag)
            if (
                shape is None
                or type(body) is not bytes
                or len(body) > self._body_bytes_max
                or message.keys != ()
                or message.message_group != ""
                or message.properties
                or message.flag != 0
                or message.deliver_at is not None
                or message.delay is not None
                or message.delay_level != AT_ONCE
            ):
                return False
        except TYPE_ERRORS:
            return False
        bundle = lane.bundle
        if (
            bundle is not None
            and bundle.open
            and bundle.size_bytes + len(body) <= self._bundle_bytes_max
        ):
            before = bundle.size_bytes
            bundle.add(lane.row, body, shape, self._clock.now_ms(), future)
            self._buffer.size_bytes += bundle.size_bytes - before
            return True
        return self._take_anew(lane, body, shape, future)

    def _new_shape(self, lane: TopicLane, tag: str) -> TagShape | None:
        """The shape of messages of a tag that was not seen before, if it is legal."""
        try:
            return lane.plain.shape_of(checked_tag(tag))
        except MessageIllegal:
            return None

    def _take_anew(
        self, lane: TopicLane, body: bytes, shape: TagShape, future: asyncio.Future[SendResult]
    ) -> bool:
        """Put a message into the open batch of its topic, or begin a batch or a row of a bundle."""
        batch = lane.open_unpinned
        run = None if batch is None else batch.run
        if batch is None or not batch.open:
            queue = lane.next_queue(self._sending.is_welcome)
            if self._join_bundle(lane, queue, body, shape, future):
                return True
            batch = self._open.next_unpinned(lane, queue, len(body))
        elif run is None:
            batch = self._open.unpinned(lane, len(body))
        elif len(run.bodies) >= batch.cut_count or (
            run.bodies
            and run.size_bytes + COLUMN_BYTES * len(run.bodies) + len(body) > self._batch_bytes_max
        ):
            batch = self._open.next_unpinned(
                lane, lane.next_queue(self._sending.is_welcome), len(body)
            )
        if batch.run is None:
            return False
        self._buffer.size_bytes += batch.add_plain(body, shape, self._clock.now_ms(), future)
        if batch.count == 1:
            self._sending.add(batch)
        return True

    def _join_bundle(
        self,
        lane: TopicLane,
        queue: MessageQueue,
        body: bytes,
        shape: TagShape,
        future: asyncio.Future[SendResult],
    ) -> bool:
        """Begin a row of a bundle, if plain messages come in bundles now."""
        if self._bundle_bytes_max < BUNDLE_BYTES_MIN:
            return False
        if lane.bundle is not None:
            # If it is still open, it had no room: should the topic come back to it, with a message
            # that fits, two batches of the bundle would be for the same queue.
            lane.bundle.full = True
        bundle = self._sending.bundle_for(queue.broker_name, self._bundle_bytes_max - len(body))
        if bundle is None:
            return False
        before = bundle.size_bytes
        row = bundle.join(queue, lane.plain, lane.choose_queue)
        bundle.add(row, body, shape, self._clock.now_ms(), future)
        self._buffer.size_bytes += bundle.size_bytes - before
        lane.bundle, lane.row = bundle, row
        return True
