"""Timed work of receiving: wakes waiting calls, renews invisible times, makes dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.dead_letters import COUNT_MAX, DeadLetters
from ariane_broker.receive.handing_out.receive_order import INVISIBLE_MS_MAX, KEPT_MS
from ariane_broker.receive.handing_out.waiting_line import WaitingLines
from ariane_broker.receive.in_hand.queue_window import QueueWindow, Rows
from ariane_broker.receive.in_hand.ranges import ranges_of
from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import SERIALS_PER_MS, ReceiveTable
from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_servicekit import in_turns
from ariane_servicekit.security.gate.asking import allows_consuming
from ariane_servicekit.security.gate.gate import Gate

TURN_SECONDS: Final = 0.1
"""The most by which due work is late."""


class ReceiveUpkeep:
    """Wakes waiting calls, renews invisible times, and makes dead letters."""

    def __init__(
        self,
        log: ReceiveLog,
        table: ReceiveTable,
        lines: WaitingLines,
        dead_letters: DeadLetters,
        *,
        groups: ConsumerGroups,
        clients: ClientTable,
        held: HeldRequests,
        now_ms: Callable[[], int],
    ) -> None:
        """``held``: pulls of queue owners, which wait for messages that receiving members hold."""
        self._log = log
        self._table = table
        self._lines = lines
        self._dead_letters = dead_letters
        self._groups = groups
        self._clients = clients
        self._held = held
        self._now_ms = now_ms
        self.gate: Gate | None = None
        """Judges whose messages stay invisible; None: everybody's."""
        self._seen_ms = now_ms()
        self._is_first_turn = True

    async def turn(self) -> None:
        """Do what is due.

        Raises:
            ServiceError: Messages could not become dead letters; the next turn tries again.
            StorageError: The same, or a renewal could not be written.
        """
        now_ms, seen_ms = self._now_ms(), self._seen_ms
        self._seen_ms = now_ms
        if self._is_first_turn:
            await in_turns(self._show_stranded(now_ms))
            self._is_first_turn = False
        exhausted = await in_turns(self._look(seen_ms, now_ms))
        for group, queue, window in exhausted:
            await self._bury_exhausted(group, queue, window, now_ms)

    def _look(
        self, seen_ms: int, now_ms: int
    ) -> Iterator[tuple[str, QueueKey, QueueWindow] | None]:
        """Do what is due at once; yields the windows of messages that had their last attempt.

        Only windows with unsettled messages are looked at: groups that are done cost nothing.
        """
        for found in self._table.unsettled():
            if found is None:
                yield None
                continue
            group, queue, window = found
            due_ms = window.due_ms
            if seen_ms < due_ms <= now_ms:
                # An owner reads only up to the first message that a receiving member holds.
                self._held.wake(queue)
            if due_ms <= now_ms:
                self._lines.call(group, queue)
            yield from self._renew(group, queue, window, now_ms)
            yield found if len(self._exhausted(group, window, now_ms)) else None

    def _show_stranded(self, now_ms: int) -> Iterator[None]:
        """Make messages visible whose invisible time exceeds the longest that a client may ask for.

        The clock was ahead when they were handed out, and was set while no broker ran.
        """
        for found in self._table.unsettled():
            yield None
            if found is None:
                continue
            group, queue, window = found
            stranded = window.rows["until_ms"] > now_ms + INVISIBLE_MS_MAX
            if stranded.any():
                ranges = ranges_of(window.rows["offset"][stranded])
                hide = ReceiveEvent(EventKind.HIDE, group, queue, ranges=ranges, until_ms=now_ms)
                self._log.write([hide])

    def _renew(
        self, group: str, queue: QueueKey, window: QueueWindow, now_ms: int
    ) -> Iterator[None]:
        """Extend the invisible time of messages that attached clients hold, before it ends.

        Not of those whose users may not settle them any more: others are to have them.

        Yields once for each client.
        """
        if window.due_ms > now_ms + KEPT_MS // 2:
            return
        for holder in np.unique(window.rows["holder"][_kept(window.rows, now_ms)]).tolist():
            name, rows = self._table.holder(holder), window.rows
            offsets = rows["offset"][_kept(rows, now_ms) & (rows["holder"] == holder)]
            # Others had their turn: they may have settled some, or have reset the offset.
            is_valid = len(offsets) and self._table.window(group, queue) is window
            if is_valid and self._may_hold(name, group, queue):
                event = ReceiveEvent(
                    EventKind.HIDE,
                    group,
                    queue,
                    ranges=ranges_of(offsets),
                    until_ms=now_ms + KEPT_MS,
                    holder=name.encode(),
                )
                self._log.write([event])
            yield None

    def _may_hold(self, client_id: str, group: str, queue: QueueKey) -> bool:
        """Whether a client lives, and its user may consume."""
        client = self._clients.find(client_id)
        if client is None or self.gate is None:
            return client is not None
        return allows_consuming(self.gate, client.caller, group, (queue.topic,))

    async def _bury_exhausted(
        self, group: str, queue: QueueKey, window: QueueWindow, now_ms: int
    ) -> None:
        """Make dead letters of messages that had their last attempt and were not settled."""
        if self._log.window(group, queue) is not window:
            return  # The group's offset was reset.
        rows = self._exhausted(group, window, now_ms)
        if len(rows):
            offsets = np.ascontiguousarray(window.rows["offset"][rows])
            self._log.write([self._dead_letters.take(group, queue, offsets)])
            reason = DeadLetterReason.ATTEMPTS_EXHAUSTED
            await self._dead_letters.bury(group, queue, offsets, reason=reason)
            self._lines.call(group, queue)

    def _exhausted(self, group: str, window: QueueWindow, now_ms: int) -> NDArray[np.int64]:
        """The rows of messages that had their last attempt, some at a time."""
        config = self._groups.find(group)
        if config is None or window.due_ms > now_ms:
            return np.empty(0, np.int64)
        rows = window.visible(now_ms)
        return rows[window.rows["attempts"][rows] > config.receive_attempts_max][:COUNT_MAX]


def _kept(rows: Rows, now_ms: int) -> NDArray[np.bool_]:
    """Which messages clients hold whose invisible time ends before long."""
    kept: NDArray[np.bool_] = (rows["holder"] > 0) & (rows["until_ms"] > now_ms)
    kept &= rows["until_ms"] <= now_ms + KEPT_MS // 2
    kept &= rows["serial"] // SERIALS_PER_MS > now_ms - INVISIBLE_MS_MAX
    return kept
