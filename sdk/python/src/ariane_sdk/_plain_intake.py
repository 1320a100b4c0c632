"""From many plain messages to batches: encoded by the thousand, without a step for each."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.crc_algebra import CrcFolder
from ariane_record.plain_block import PlainShape
from ariane_sdk._clock import Clock
from ariane_sdk._message import SendResult
from ariane_sdk._plain_batch import PlainBatch
from ariane_sdk._plain_messages import PlainMessages
from ariane_sdk._send_batch import COLUMN_BYTES, SendBatch
from ariane_sdk._send_buffer import SendBuffer
from ariane_sdk._sending import Sending
from ariane_sdk._settings import ProducerSettings
from ariane_sdk._topic_lane import TopicLane
from ariane_sdk.errors import ArianeError

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
        new_unique_ids: Callable[[int], NDArray[np.uint8]],
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
    ) -> list[SendResult | ArianeError]:
        """Have messages travel, and wait for their outcomes.

        Args:
            messages: The messages.
            learn_lane: Gives the lane of the topic, once its route is known.
        """
        try:
            lane = await learn_lane()
        except ArianeError as error:
            return [error] * len(messages.bodies)
        travels: list[tuple[SendBatch | ArianeError, int]] = []
        for bodies in self._cuts(messages):
            if self._buffer.size_bytes:
                await asyncio.sleep(0)
                await self._buffer.wait_for_room()
            try:
                travels.append((self._send(lane, messages.tag, bodies), len(bodies)))
            except ArianeError as error:
                travels.append((error, len(bodies)))
        outcomes: list[SendResult | ArianeError] = []
        for travel, count in travels:
            if isinstance(travel, ArianeError):
                outcomes += [travel] * count
            else:
                await travel.wait_settled()
                outcomes += travel.outcomes_of(0, count)
        return outcomes

    def _cuts(self, messages: PlainMessages) -> Iterator[tuple[bytes, ...]]:
        """The bodies of one batch after the other; a body that is larger than one is alone."""
        bodies = messages.bodies
        shape = PlainShape(messages.topic, messages.tag, id_bytes=UNIQUE_ID_DIGITS_MAX)
        beside = COLUMN_BYTES + shape.overhead_bytes
        ends = list(accumulate(len(body) + beside for body in bodies))
        begin = behind = 0
        while begin < len(bodies):
            end = bisect_right(ends, behind + self._settings.batch_bytes_max, begin)
            end = max(end, begin + 1)
            yield bodies[begin:end]
            begin, behind = end, ends[end - 1]

    def _send(self, lane: TopicLane, tag: str, bodies: tuple[bytes, ...]) -> SendBatch:
        queue = lane.next_queue(self._sending.is_welcome)
        digits = self._new_unique_ids(len(bodies))
        width = digits.shape[1]
        block = PlainShape(lane.topic, tag, id_bytes=width).encode(
            bodies,
            digits,
            born_timestamp_ms=self._clock.now_ms(),
            sequenced=self._settings.idempotent,
            folder=self._folder,
        )
        text = digits.tobytes().decode("ascii")
        batch = PlainBatch(
            queue,
            block,
            [text[begin : begin + width] for begin in range(0, len(text), width)],
            choose_other=lane.next_queue,
            sequenced=self._settings.idempotent,
        )
        self._buffer.size_bytes += batch.size_bytes
        self._sending.add(batch)
        return batch
