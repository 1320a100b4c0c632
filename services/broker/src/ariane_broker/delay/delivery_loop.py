"""The loop that delivers what is due, in slices between which everything else has its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from ariane_broker.delay.delivery import Delivery
from ariane_broker.delay.level_queues import LevelQueues
from ariane_servicekit import Clock, Loop, get_logger
from ariane_storage.errors import StoreFull, StorePoisoned

SLICE_COUNT: Final = 256
"""Messages that are delivered in one go: some milliseconds of the loop."""

SLICE_BYTES: Final = 4 << 20
"""Bytes of them, however few they are."""

WAIT_SECONDS_MAX: Final = 1.0
"""The clock of the machine may be set: it is looked at as often as that."""

_log = get_logger(__name__)


class DeliveryLoop:
    """Delivers what is due."""

    def __init__(
        self,
        levels: LevelQueues,
        delivery: Delivery,
        clock: Clock,
        *,
        on_delivered: Callable[[], None],
    ) -> None:
        """Take the parts.

        Args:
            levels: The delay levels.
            delivery: Appends what is due.
            clock: Says what time it is.
            on_delivered: Called after a turn that delivered something.
        """
        self._levels = levels
        self._delivery = delivery
        self._clock = clock
        self._on_delivered = on_delivered
        self._wakes_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_full = False
        self.loop = Loop("deliver-delayed", self.turn, interval_s=WAIT_SECONDS_MAX, clock=clock)

    def parked(self, due_ms: int) -> None:
        """A record was parked: perhaps it is due before everything else."""
        if self._wakes_ms is None or due_ms < self._wakes_ms:
            self._wake_at(due_ms)

    async def turn(self) -> None:
        """Deliver all that is due by now."""
        before = self._delivery.delivered_count
        try:
            for level in self._levels.levels:
                while self.deliver_slice(level):  # noqa: ASYNC110 - others have their turn.
                    await asyncio.sleep(0)
            self._is_full = False
        except StorePoisoned:
            return  # The process is on its way out.
        except StoreFull as error:
            if not self._is_full:
                _log.error("delayed_messages_wait", reason=error.reason)
            self._is_full = True
            return  # Another try with the next turn.
        finally:
            if self._delivery.delivered_count != before:
                self._on_delivered()
        due_ms = self._levels.next_due_ms()
        if due_ms is None:
            self._wakes_ms = None
        else:
            self._wake_at(due_ms)

    def deliver_slice(self, level: int) -> bool:
        """Deliver some of what is due of a level; whether there may be more."""
        rows = self._levels.due(level, SLICE_COUNT).within(SLICE_BYTES)
        if not len(rows):
            return False
        self._delivery.deliver(rows, partial(self._levels.mark, level))
        return True

    def _wake_at(self, due_ms: int) -> None:
        self._wakes_ms = due_ms
        if self._timer is not None:
            self._timer.cancel()
        wait_seconds = max(0, due_ms - self._clock.now_ms()) / 1000
        if wait_seconds < WAIT_SECONDS_MAX:
            self._timer = asyncio.get_running_loop().call_later(wait_seconds, self.loop.wake)
