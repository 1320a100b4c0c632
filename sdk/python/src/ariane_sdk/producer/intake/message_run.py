"""Many messages of one topic and tag at once: the usual argument of ``send_batch``.

They are encoded together, without a Python step for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, countOf
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ariane_record.encoding.message_properties import EncodedProperties
from ariane_sdk.checks.delay import AT_ONCE
from ariane_sdk.errors import ArianeError
from ariane_sdk.message import Message, SendResult
from ariane_sdk.producer.accumulator.row import COLUMN_BYTES, Row
from ariane_sdk.producer.accumulator.send_results import SendResults
from ariane_sdk.producer.accumulator.topic_info import TopicInfo
from ariane_sdk.producer.intake.whole_rows import WholeRow, WholeRows, cuts

COUNT_MIN: Final = 64
"""Fewer are taken one by one, into rows that they share with others."""

_body_of = attrgetter("body")
_others_of = attrgetter(
    "topic",
    "tag",
    "keys",
    "properties",
    "message_group",
    "flag",
    "deliver_at",
    "delay",
    "delay_level",
    "priority",
    "expire_after",
)
_UNSET: Final[tuple[object, ...]] = ({}, "", 0, None, None, AT_ONCE, 0, None)
"""The defaults of the fields from ``properties`` on."""


class MessageRun(NamedTuple):
    """Messages of one topic and tag that have a body and nothing else."""

    topic: str
    """The topic of all."""
    tag: str
    """The tag of all, or nothing."""
    bodies: Sequence[bytes]
    """The bodies."""
    lengths: NDArray[np.int32]
    """Size of each body in bytes: int32."""

    @classmethod
    def of(cls, messages: Sequence[Message], *, body_bytes_max: int) -> Self | None:
        """Collect messages; None if they are few, or one of them differs.

        Args:
            messages: The messages; they are not checked here.
            body_bytes_max: Larger bodies may be compressed, and are taken one by one.
        """
        count = len(messages)
        if count < COUNT_MIN or countOf(map(type, messages), Message) < count:
            return None
        first = _others_of(messages[0])
        topic, tag, keys, *unset = first
        plain = type(topic) is type(tag) is str and keys in ((), []) and tuple(unset) == _UNSET
        if not plain or countOf(map(_others_of, messages), first) < count:
            return None
        bodies = list(map(_body_of, messages))
        if countOf(map(type, bodies), bytes) < count:
            return None
        lengths = np.fromiter(map(len, bodies), np.int64, count)
        if int(lengths.max()) > body_bytes_max:
            return None
        return cls(topic, tag, bodies, lengths.astype(np.int32))

    def slice(self, begin: int, end: int) -> Self:
        """Some neighbouring messages."""
        if end - begin == len(self.bodies):
            return self
        return self._replace(bodies=self.bodies[begin:end], lengths=self.lengths[begin:end])


async def send_run(
    messages: MessageRun,
    properties: EncodedProperties,
    info: TopicInfo,
    whole_rows: WholeRows,
    batch_bytes_max: int,
) -> Sequence[SendResult | ArianeError]:
    """Send messages, and wait for their outcomes.

    Args:
        messages: The messages.
        properties: The properties of each.
        info: Their topic.
        whole_rows: Encodes and sends them.
        batch_bytes_max: The most bytes of a row.
    """
    counts: list[int] = []

    def divided(spread_count: int) -> Iterator[WholeRow]:
        nonlocal messages
        count_max = info.count_per_queue(len(messages.bodies), spread_count)
        sizes = messages.lengths + np.int64(COLUMN_BYTES + properties.overhead_bytes)
        for start, stop in cuts(sizes, batch_bytes_max, count_max):
            counts.append(stop - start)
            part = messages.slice(start, stop)
            encode = whole_rows.encoded_run
            yield WholeRow(partial(encode, info.properties, properties, part.bodies, part.lengths))
        del messages  # So that bodies are freed once they are sent.

    sent = await whole_rows.send_all(info, divided)
    stored = [row.stored for row in sent if isinstance(row, Row) and row.stored is not None]
    if len(stored) == len(sent):
        return SendResults(stored)
    return list(chain.from_iterable(map(_outcomes_of, sent, counts)))


def _outcomes_of(sent: Row | ArianeError, count: int) -> Sequence[SendResult | ArianeError]:
    """The outcomes of messages that were sent as one row, which is settled, or were refused."""
    if isinstance(sent, Row) and sent.stored is not None:
        return sent.stored.results(0, count)
    error = sent.error if isinstance(sent, Row) else sent
    if error is None:
        raise AssertionError("a settled row is stored or has an error")
    return [error] * count
