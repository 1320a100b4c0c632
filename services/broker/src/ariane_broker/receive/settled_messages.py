"""Settling messages that have a receipt each: those of one answer and queue are settled together.

A settlement costs as much for one message as for all of an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.ranges import apart
from ariane_broker.receive.in_hand.receipts import Receipt
from ariane_broker.receive.settling import Outcome, Settled, Settlement, Settling
from ariane_servicekit import in_turns

_Answer: TypeAlias = tuple[QueueKey, int]
"""The queue and the serial of receipts."""


class SettledMessage(NamedTuple):
    """What became of a message."""

    expired: bool
    """Whether its receipt no longer settles it."""
    dead: bool
    """Whether it became a dead letter."""

    @classmethod
    def of(cls, settled: Settled) -> SettledMessage:
        """The same of a settlement of one message."""
        return cls(settled.expired, bool(len(settled.dead)))


class _Together(NamedTuple):
    """What became of the messages of an answer."""

    settled: frozenset[int]
    """Their queue offsets."""
    dead: frozenset[int]
    """Those of dead letters."""
    expired: bool
    """Whether the receipt no longer settles some."""

    @classmethod
    def of(cls, settled: Settled) -> _Together:
        """The same of a settlement."""
        offsets = frozenset(settled.settled.tolist())
        return cls(offsets, frozenset(settled.dead.tolist()), settled.expired)


async def settle_messages(
    settling: Settling, group: str, receipts: Sequence[Receipt], outcome: Outcome
) -> list[SettledMessage]:
    """Settle messages of a group, and wait until the broker may confirm it; a result for each.

    Raises:
        ServiceError: As of ``Settling.settle``.
        StorageError: As of ``Settling.settle``.
    """
    offsets: dict[_Answer, list[int]] = {}
    await in_turns(_gathered(receipts, offsets))
    settlements = await in_turns(
        _settlement(answer, several, outcome) for answer, several in offsets.items()
    )
    results = await in_turns(map(_Together.of, await settling.settle(group, settlements)))
    together = dict(zip(offsets, results, strict=True))
    # Which of them have expired: nothing has become of these.
    left = list(dict.fromkeys(await in_turns(_left(receipts, together))))
    single = await in_turns(
        _settlement((each.queue, each.serial), [each.queue_offset], outcome) for each in left
    )
    alone = dict(zip(left, await settling.settle(group, single), strict=True)) if left else {}
    return await in_turns(_results(receipts, together, alone))


def _gathered(receipts: Sequence[Receipt], offsets: dict[_Answer, list[int]]) -> Iterator[None]:
    for queue, serial, queue_offset in receipts:
        offsets.setdefault((queue, serial), []).append(queue_offset)
        yield None


def _settlement(answer: _Answer, queue_offsets: Sequence[int], outcome: Outcome) -> Settlement:
    ranges = np.ones((len(queue_offsets), 2), np.int64)
    ranges[:, 0] = queue_offsets
    return Settlement(*answer, apart(ranges), outcome)


def _left(
    receipts: Sequence[Receipt], together: Mapping[_Answer, _Together]
) -> Iterator[Receipt | None]:
    for receipt in receipts:
        found = together[receipt.queue, receipt.serial]
        yield receipt if found.expired and receipt.queue_offset not in found.settled else None


def _results(
    receipts: Sequence[Receipt],
    together: Mapping[_Answer, _Together],
    alone: Mapping[Receipt, Settled],
) -> Iterator[SettledMessage]:
    for receipt in receipts:
        single = alone.get(receipt)
        if single is not None:
            yield SettledMessage.of(single)
        else:
            dead = together[receipt.queue, receipt.serial].dead
            yield SettledMessage(expired=False, dead=receipt.queue_offset in dead)
