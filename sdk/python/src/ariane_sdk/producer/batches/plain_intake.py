"""From many plain messages to batches: encoded by the thousand, without a step for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np

from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.encoding.plain_block import PlainShape
from ariane_record.single.message_id import UniqueIds
from ariane_sdk.errors import ArianeError
from ariane_sdk.message import SendResult
from ariane_sdk.producer.batches.plain_batch import PlainBatch
from ariane_sdk.producer.batches.plain_messages import PlainMessages
from ariane_sdk.producer.batches.send_batch import COLUMN_BYTES, SendBatch
from ariane_sdk.producer.batches.topic_lane import TopicLane
from ariane_sdk.producer.sending.send_buffer import SendBuffer, SendTurns
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

UNIQUE_ID_DIGITS_MAX: Final = 56


class PlainIntake:
    """Takes plain messages and has them travel."""

    __slots__ = ("_buffer", "_clock", "_folder", "_new_unique_ids", "_sending", "_settings")

    def __init__(
        self,
        sending: Sending,
        buffer: SendBuffer,
        *,
        settings: ProducerSettings,
        clock: Clock,
        new_unique_ids: Callable[[int], UniqueIds],
    ) -> None:
        """Have taken nothing yet.

        Args:
            sending: Where batches go.
            buffer: How much may wait.
            settings: How the producer behaves.
            clock: Stamps messages.
            new_unique_ids: Makes the ids of so many messages.
        """
        self._sending = sending
        self._buffer = buffer
        self._settings = settings
        self._clock = clock
        self._new_unique_ids = new_unique_ids
        self._folder = CrcFolder()

    async def take_all(
        self, messages: PlainMessages, learn_lane: Callable[[], Awaitable[TopicLane]]
    ) -> Sequence[SendResult | ArianeError]:
        """Have messages travel, and wait for their outcomes.

        Args:
            messages: The messages.
            learn_lane: Gives the lane of the topic, once its route is known.
        """
        try:
            lane = await learn_lane()
        except ArianeError as error:
            return [error] * len(messages.bodies)
        spread_count = 0
        if lane.flow.begin(self._clock.monotonic_s()):
            spread_count = self._settings.spread_count
        try:
            return await self._send_all(lane, messages, spread_count)
        finally:
            lane.flow.end(self._clock.monotonic_s())

    async def _send_all(
        self, lane: TopicLane, messages: PlainMessages, spread_count: int
    ) -> Sequence[SendResult | ArianeError]:
        """Have messages travel, so many to a queue at least, and wait for their outcomes."""
        travels: list[tuple[SendBatch | ArianeError, int]] = []
        count_max = lane.share_count(len(messages.bodies), spread_count)
        turns = SendTurns(self._buffer, self._settings.batch_bytes_max)
        taken_bytes = 0
        for part in self._cuts(messages, count_max):
            await turns.next(taken_bytes)
            try:
                batch = self._send(lane, part)
            except ArianeError as error:
                travels.append((error, len(part.bodies)))
            else:
                taken_bytes += batch.size_bytes
                travels.append((batch, len(part.bodies)))
        outcomes = [await _outcomes_of(travel, count) for travel, count in travels]
        return outcomes[0] if len(outcomes) == 1 else list(chain.from_iterable(outcomes))

    def _cuts(self, messages: PlainMessages, count_max: int) -> Iterator[PlainMessages]:
        """The messages of one batch after the other; one that is larger than a batch is alone.

        Args:
            messages: The messages.
            count_max: Messages of one batch.
        """
        shape = PlainShape(messages.topic, messages.tag, id_bytes=UNIQUE_ID_DIGITS_MAX)
        beside = COLUMN_BYTES + shape.overhead_bytes
        ends = np.cumsum(messages.lengths + np.int64(beside))
        begin = behind = 0
        while begin < len(messages.bodies):
            last = behind + self._settings.batch_bytes_max
            end = max(int(np.searchsorted(ends, last, side="right")), begin + 1)
            end = min(end, begin + count_max)
            yield messages.slice(begin, end)
            begin, behind = end, int(ends[end - 1])

    def _send(self, lane: TopicLane, messages: PlainMessages) -> SendBatch:
        queue = lane.next_queue(self._sending.is_welcome)
        unique_ids = self._new_unique_ids(len(messages.bodies))
        digits = unique_ids.digits
        block = PlainShape(lane.topic, messages.tag, id_bytes=digits.shape[1]).encode(
            messages.bodies,
            messages.lengths,
            unique_ids,
            born_timestamp_ms=self._clock.now_ms(),
            sequenced=self._settings.idempotent,
            folder=self._folder,
        )
        batch = PlainBatch(
            queue,
            block,
            digits,
            choose_other=lane.next_queue,
            sequenced=self._settings.idempotent,
        )
        self._buffer.size_bytes += batch.size_bytes
        self._sending.add(batch)
        return batch


async def _outcomes_of(
    travel: SendBatch | ArianeError, count: int
) -> Sequence[SendResult | ArianeError]:
    """What the messages of one batch got, once it is settled."""
    if isinstance(travel, ArianeError):
        return [travel] * count
    await travel.wait_settled()
    return travel.outcomes_of(0, count)
