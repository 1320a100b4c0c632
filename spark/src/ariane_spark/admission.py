"""How far one micro-batch goes."""

from __future__ import annotations

from collections.abc import Mapping

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.offsets import Positions


def limit_by_count(
    start: Mapping[MessageQueue, QueueOffset],
    end: Mapping[MessageQueue, QueueOffset],
    count_max: int,
) -> Positions:
    """Positions no further than ``end`` that hold at most ``count_max`` messages in all.

    Each queue gets a share in proportion to its backlog, so that all are worked off at the same
    time, and at least one message, so that none starves. Only where there are more queues with a
    backlog than messages allowed is the limit exceeded: one message of each is read.

    Args:
        start: Where each queue of ``end`` begins.
        end: Where each queue would end without the limit.
        count_max: Messages in all, 1 or more.
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
        # Rounding down left some over: to those that lost most by it, at most one each.
        for queue in sorted(losses, key=lambda queue: (-losses[queue], queue))[:spare]:
            shares[queue] += 1
    else:
        # Rounding up to one took too many: from the largest, down to one.
        for queue in sorted(shares, key=lambda queue: (-shares[queue], queue)):
            taken = min(-spare, shares[queue] - 1)
            shares[queue] -= taken
            spare += taken
    return {
        queue: QueueOffset(start[queue] + shares[queue]) if queue in shares else end[queue]
        for queue in end
    }
