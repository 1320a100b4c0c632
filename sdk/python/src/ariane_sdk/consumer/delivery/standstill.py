"""Warns of queues that stand still: messages are there, and none is finished for a long time.

The cause is mostly a listener that waits for something. A member whose queue stands still keeps
sending heartbeats, so no other member takes the queue over, and without this nobody would know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ariane_record.counted import counted
from ariane_sdk.client.hold import FAILED_IN_ORDER, Hold
from ariane_sdk.client.listener import STANDSTILL_S
from ariane_sdk.consumer.delivery.owned_queue import OwnedQueue
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger


class _Seen(NamedTuple):
    progress: tuple[int, float | None]
    since_s: float
    warn_after_s: float


class StandstillWatch:
    """Looks at the queues of one consumer now and then."""

    def __init__(self, group: str) -> None:
        """Nothing has been seen yet."""
        self._group = group
        self._seen: dict[MessageQueue, _Seen] = {}

    def look(self, queues: Iterable[OwnedQueue], now_s: float) -> None:
        """Compare each queue with the look before, and warn of those that stand still.

        Args:
            queues: The queues that the consumer has now.
            now_s: The monotonic time.
        """
        before, self._seen = self._seen, {}
        for owned in queues:
            unfinished = owned.in_flight_count + owned.waiting_count
            hold = owned.hold
            held_otherwise = hold is not None and hold.reason != FAILED_IN_ORDER
            if not unfinished or owned.paused or held_otherwise:
                continue
            progress = (owned.done_offset, owned.delivered_s)
            seen = before.get(owned.queue)
            if seen is None or seen.progress != progress:
                seen = _Seen(progress, now_s, STANDSTILL_S)
            elif now_s - seen.since_s >= seen.warn_after_s:
                if hold is not None:
                    self._log_hold(owned.queue, hold, now_s - seen.since_s)
                    self._seen[owned.queue] = seen._replace(warn_after_s=2 * seen.warn_after_s)
                    continue
                logger.warning(
                    "%s of group %s: no progress for %.0f s; the application has %s and %d more"
                    " wait for it (ariane group running %s --stacks shows where it is)",
                    owned.queue,
                    self._group,
                    now_s - seen.since_s,
                    counted(owned.in_flight_count, "message"),
                    owned.waiting_count,
                    self._group,
                )
                seen = seen._replace(warn_after_s=2 * seen.warn_after_s)
            self._seen[owned.queue] = seen

    def _log_hold(self, queue: MessageQueue, hold: Hold, still_s: float) -> None:
        logger.warning(
            "%s of group %s waits for %.0f s for message %d, which has failed %s, and all"
            " messages behind it wait (ariane group retry %s --ordered-attempts N gives up after"
            " N repetitions): %s",
            queue,
            self._group,
            still_s,
            hold.queue_offset,
            counted(hold.attempts, "time"),
            self._group,
            hold.cause,
        )
