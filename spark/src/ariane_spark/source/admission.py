"""The end of one micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.options.options import TriggerLimits
from ariane_spark.positions.offsets import Bounds, Positions
from ariane_spark.source.read_limits import ReadLimit, ReadMaxBytes, ReadMaxRows


class Patience:
    """Waits for enough messages, up to a time."""

    def __init__(self, limits: TriggerLimits, monotonic: Callable[[], float]) -> None:
        """``limits``: the number of messages to wait for, and the longest wait."""
        self._limits = limits
        self._monotonic = monotonic
        self.begin_anew()

    def begin_anew(self) -> None:
        """End a micro-batch: the next one waits for new messages."""
        self._until_s = self._monotonic() + self._limits.delay_ms_max / 1000

    def is_over(self, backlog: int) -> bool:
        """Whether a number of messages is enough by now."""
        wanted = self._limits.records_min
        return wanted is None or backlog >= wanted or self._monotonic() >= self._until_s


def backlog_of(start: Positions, bounds: Mapping[MessageQueue, Bounds]) -> int:
    """The number of waiting messages, including messages of new queues."""
    return sum(
        max(0, kept.latest - start.get(queue, kept.earliest)) for queue, kept in bounds.items()
    )


def limited(
    start: Positions,
    end: Positions,
    bounds: Mapping[MessageQueue, Bounds],
    limit: ReadLimit,
    limits: TriggerLimits,
) -> Positions:
    """The end that both limits allow: the one from Spark, and the other one.

    Args:
        start: The start of each queue of ``end``.
        end: The end of each queue without limits.
        bounds: The kept ranges.
        limit: Spark's limit.
        limits: The user's limits.
    """
    records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else limits.records_max
    bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else limits.bytes_max
    if records_max is not None:
        end = limit_by_count(start, end, records_max)
    if bytes_max is not None:
        sizes = {queue: kept.message_bytes for queue, kept in bounds.items()}
        end = limit_by_bytes(start, end, sizes, bytes_max)
    return end


def limit_by_count(
    start: Mapping[MessageQueue, QueueOffset],
    end: Mapping[MessageQueue, QueueOffset],
    count_max: int,
) -> Positions:
    """Positions up to ``end`` with at most ``count_max`` messages in all.

    Each queue gets a share in proportion to its backlog, so that all backlogs end at the same time,
    and at least one message, so that none starves. The limit is exceeded only if there are more
    queues with a backlog than allowed messages: then one message of each is read.

    Args:
        start: The start of each queue of ``end``.
        end: The end of each queue without the limit.
        count_max: The most messages in all, 1 or more.
    """
    backlogs = {queue: end[queue] - start[queue] for queue in end if end[queue] > start[queue]}
    total = sum(backlogs.values())
    if total <= count_max:
        return dict(end)
    shares: dict[MessageQueue, int] = {}
    losses: dict[MessageQueue, int] = {}
    for queue, backlog in backlogs.items():
        share, loss = divmod(backlog * count_max, total)
        shares[queue] = max(1, share)
        losses[queue] = loss if share else 0
    spare = count_max - sum(shares.values())
    if spare > 0:
        # Rounding down left a rest: it goes to the queues that lost most by it, at most one each.
        for queue in sorted(losses, key=lambda queue: (-losses[queue], queue))[:spare]:
            shares[queue] += 1
    else:
        # Rounding up to one exceeded the limit: the largest shares are reduced, down to one.
        for queue in sorted(shares, key=lambda queue: (-shares[queue], queue)):
            taken = min(-spare, shares[queue] - 1)
            shares[queue] -= taken
            spare += taken
    return {
        queue: QueueOffset(start[queue] + shares[queue]) if queue in shares else end[queue]
        for queue in end
    }


def limit_by_bytes(
    start: Mapping[MessageQueue, QueueOffset],
    end: Mapping[MessageQueue, QueueOffset],
    message_bytes: Mapping[MessageQueue, float],
    bytes_max: int,
) -> Positions:
    """Positions up to ``end`` whose messages have about ``bytes_max`` bytes in all.

    Each queue gets the same part of its backlog, rounded down, and at least one message.

    Args:
        start: The start of each queue of ``end``.
        end: The end of each queue without the limit.
        message_bytes: About the bytes of one message of each queue; 0 if unknown.
        bytes_max: The most bytes in all, 1 or more.
    """
    backlogs = {queue: end[queue] - start[queue] for queue in end if end[queue] > start[queue]}
    total = sum(backlog * message_bytes.get(queue, 0) for queue, backlog in backlogs.items())
    if total <= bytes_max:
        return dict(end)
    part = bytes_max / total
    return {
        queue: QueueOffset(start[queue] + max(1, int(backlogs[queue] * part)))
        if queue in backlogs
        else end[queue]
        for queue in end
    }
