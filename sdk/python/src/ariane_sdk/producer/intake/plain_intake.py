"""From many plain messages to batches, encoded together without a Python step for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain
from typing import Final

import numpy as np

from ariane_record.encoding.plain_topic import TagShape
from ariane_sdk.errors import ArianeError
from ariane_sdk.message import SendResult
from ariane_sdk.producer.batches.send_batch import COLUMN_BYTES, SendBatch
from ariane_sdk.producer.batches.send_results import JoinedResults, SendResults
from ariane_sdk.producer.batches.topic_lane import TopicLane
from ariane_sdk.producer.intake.block_intake import BlockIntake, cuts
from ariane_sdk.producer.intake.plain_messages import PlainMessages

SHARE_BYTES_MAX: Final = 256 << 10
"""For larger shares of a queue, another copy costs more than encoding the share alone."""


class PlainIntake:
    """Takes many plain messages and sends them."""

    __slots__ = ("_batch_bytes_max", "_blocks")

    def __init__(self, blocks: BlockIntake, *, batch_bytes_max: int) -> None:
        self._blocks = blocks
        self._batch_bytes_max = batch_bytes_max

    async def take_all(
        self,
        messages: PlainMessages,
        shape: TagShape,
        learn_lane: Callable[[], Awaitable[TopicLane]],
    ) -> Sequence[SendResult | ArianeError]:
        """Send messages, and wait for their outcomes.

        Args:
            messages: The messages.
            shape: The shape of their tag.
            learn_lane: Gives the lane of their topic once its route is known.
        """
        try:
            lane = await learn_lane()
        except ArianeError as error:
            return [error] * len(messages.bodies)
        with self._blocks.spreading(lane) as spread_count:
            return await self._send_all(lane, messages, shape, spread_count)

    async def _send_all(
        self, lane: TopicLane, messages: PlainMessages, shape: TagShape, spread_count: int
    ) -> Sequence[SendResult | ArianeError]:
        """Send messages, with a least number for each queue, and wait for their outcomes."""
        sent: list[tuple[SendBatch | ArianeError, int]] = []
        count_max = lane.share_count(len(messages.bodies), spread_count)
        turns = self._blocks.turns()
        taken_bytes = 0
        sizes = messages.lengths + np.int64(COLUMN_BYTES + shape.overhead_bytes)
        for start, stop in cuts(sizes, self._batch_bytes_max, count_max):
            part = messages.slice(start, stop)
            await turns.next(taken_bytes)
            try:
                batch = self._send(lane, part, shape, share=count_max < len(messages.bodies))
            except ArianeError as error:
                sent.append((error, len(part.bodies)))
            else:
                taken_bytes += batch.size_bytes
                sent.append((batch, len(part.bodies)))
        outcomes = [await _outcomes_of(batch, count) for batch, count in sent]
        if len(outcomes) == 1:
            return outcomes[0]
        stored = [part for part in outcomes if isinstance(part, SendResults)]
        if len(stored) == len(outcomes):
            return JoinedResults(stored)
        return list(chain.from_iterable(outcomes))

    def _send(
        self, lane: TopicLane, messages: PlainMessages, shape: TagShape, *, share: bool
    ) -> SendBatch:
        """Send the messages of one batch.

        Args:
            lane: Their topic.
            messages: The messages.
            shape: The shape of their tag.
            share: Whether batches for other queues are sent with this one: then all are encoded in
                one go, at the price of one copy more.
        """
        if share and int(messages.lengths.sum()) <= SHARE_BYTES_MAX:
            return self._blocks.send_run(lane, messages.bodies, shape)
        encode = partial(
            self._blocks.plain_block, lane.plain, shape, messages.bodies, messages.lengths
        )
        return self._blocks.send(lane, encode)


async def _outcomes_of(
    batch: SendBatch | ArianeError, count: int
) -> Sequence[SendResult | ArianeError]:
    """Return the outcomes of the messages of one batch, once it is settled."""
    if isinstance(batch, ArianeError):
        return [batch] * count
    await batch.wait_settled()
    return batch.outcomes_of(0, count)
