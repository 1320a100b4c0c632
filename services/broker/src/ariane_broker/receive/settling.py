"""Settling: marks messages as done, extends their invisible time, or makes them visible again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupConfig
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.dead_letters import DeadLetters
from ariane_broker.receive.handing_out.receive_order import KEPT_MS
from ariane_broker.receive.in_hand.queue_window import TIMED, QueueWindow
from ariane_broker.receive.in_hand.ranges import Ranges, ranges_of, rows_within
from ariane_broker.receive.in_hand.receive_events import EventFlag, EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.waits import FIRST_LEVEL, wait_ms
from ariane_servicekit import EXAMINED_MAX, in_turns
from ariane_storage.log.records.fields import Int64s


@dataclass(frozen=True, slots=True)
class Done:
    """The messages are acknowledged."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """The messages stay invisible for this time from now on; their receipt stays valid."""

    span_ms: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The broker renews the invisible time by itself while a client is attached."""

    client_id: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The messages failed."""

    delay_ms: int | None = None
    """Delay before the next attempt; None: the delay of the group's retry policy."""
    dead_letter: bool = False
    """Whether they become dead letters at once."""
    cause: str = ""
    """The reason in words."""


Outcome: TypeAlias = Done | Hidden | Kept | Failed
DONE: Final = Done()


@dataclass(frozen=True, slots=True)
class Settlement:
    """An outcome for messages of one receipt."""

    queue: QueueKey
    """The messages' queue."""
    serial: int
    """The receipt's serial."""
    ranges: Ranges | None = None
    """The messages; None: all that the receipt still settles."""
    outcome: Outcome = DONE
    """The new state of the messages."""


class Settled(NamedTuple):
    """The result of a settlement."""

    settled: Int64s
    """Offsets of the messages that were settled, ascending."""
    expired: bool
    """Whether it names messages that the receipt no longer settles."""
    dead: Int64s
    """Offsets of the messages that became dead letters, ascending."""
    until_ms: int = 0
    """End of the new invisible time; 0 if it is not the same for all."""


_NONE: Final = np.empty(0, np.int64)

_queue_of: Final[Callable[[ReceiveEvent], QueueKey]] = attrgetter("queue")


@dataclass(frozen=True, slots=True, eq=False)
class Settling:
    """Settles messages."""

    log: ReceiveLog
    dead_letters: DeadLetters
    _: KW_ONLY
    groups: ConsumerGroups
    delay_levels_ms: Sequence[int]
    now_ms: Callable[[], int]
    freed: Callable[[str, QueueKey], None]
    """Called with a group and a queue in which it may have more messages now."""

    async def settle(self, group: str, settlements: Sequence[Settlement]) -> list[Settled]:
        """Settle messages of a group, and wait until the broker may confirm it.

        Raises:
            ServiceError: GROUP_NOT_FOUND, FLUSH_UNCONFIRMED, and the errors of
                ``DeadLetters.bury``.
            StorageError: Some of it is not settled, or some dead letters are not.
        """
        died: list[tuple[int, Settlement]] = []
        results = await in_turns(self._settle(self.groups.get(group), settlements, died))
        return await self._confirmed(group, results, died)

    def settle_one(
        self, group: str, settlement: Settlement
    ) -> Settled | Coroutine[None, None, list[Settled]]:
        """The same for one settlement, without a wait if the broker's promise needs none."""
        died: list[tuple[int, Settlement]] = []
        results = list(self._settle(self.groups.get(group), (settlement,), died))
        if died or self.log.waits:
            return self._confirmed(group, results, died)
        return results[0]

    async def _confirmed(
        self, group: str, results: list[Settled], died: Sequence[tuple[int, Settlement]]
    ) -> list[Settled]:
        """The results once the broker may confirm them, and dead letters are ones."""
        for place, settlement in died:
            dead = results[place].dead
            refused = await self._bury(group, settlement, dead)
            results[place] = results[place]._replace(dead=np.setdiff1d(dead, refused))
        # Also what was settled before: an unanswered call is repeated before the disk has it.
        settled = map(len, map(attrgetter("settled"), results))
        if any(settled) or not all(map(attrgetter("expired"), results)):
            await self.log.promised()
        return results

    def _settle(
        self,
        config: GroupConfig,
        settlements: Sequence[Settlement],
        died: list[tuple[int, Settlement]],
    ) -> Iterator[Settled]:
        """Settle a turn's worth at a time: what is planned is written before others can plan.

        Adds the settlements of messages that become dead letters to ``died``, with their places.
        """
        group = config.consumer_group
        for first in range(0, len(settlements), EXAMINED_MAX):
            results: list[Settled] = []
            events: list[ReceiveEvent] = []
            for settlement in settlements[first : first + EXAMINED_MAX]:
                result, own = self._plan(config, settlement)
                results.append(result)
                events += own
                if len(result.dead):
                    died.append((first + len(results) - 1, settlement))
            if events:
                self.log.write(events)
                for queue in dict.fromkeys(map(_queue_of, events)):
                    self.freed(group, queue)
            yield from results

    def _plan(
        self, config: GroupConfig, settlement: Settlement
    ) -> tuple[Settled, list[ReceiveEvent]]:
        group, queue = config.consumer_group, settlement.queue
        window = self.log.window(group, queue)
        outcome = settlement.outcome
        if window is None:
            # Nobody has anything in hand; owners of the queue may have settled what is named.
            end, ranges = self.log.stored_offset(group, queue), settlement.ranges
            done = isinstance(outcome, Done) and ranges is not None and not _beyond(end, ranges)
            return Settled(_NONE, expired=not done, dead=_NONE), []
        offsets = window.find(settlement.serial, settlement.ranges)
        if isinstance(outcome, Done):
            settled = Settled(offsets, _others(window, settlement, len(offsets)), _NONE)
            return settled, _events(EventKind.SETTLE, group, queue, offsets)
        expired = settlement.ranges is not None and len(offsets) < settlement.ranges[:, 1].sum()
        if isinstance(outcome, Hidden):
            until_ms = self.now_ms() + outcome.span_ms
            events = _events(EventKind.HIDE, group, queue, offsets, until_ms=until_ms)
            return Settled(offsets, bool(expired), _NONE, until_ms), events
        if isinstance(outcome, Kept):
            # Visible messages stay visible: their client gave them back, or their time is over.
            # Others whose client was quicker than this call have the time that it has set.
            now_ms = self.now_ms()
            left = np.union1d(
                window.visible(now_ms), np.flatnonzero(window.rows["holder"] == TIMED)
            )
            offsets = np.setdiff1d(offsets, window.offsets[left])
            until_ms = now_ms + KEPT_MS
            holder = outcome.client_id.encode()
            events = _events(
                EventKind.HIDE, group, queue, offsets, until_ms=until_ms, holder=holder
            )
            return Settled(offsets, bool(expired), _NONE, until_ms), events
        dead, events = self._failed(config, window, queue, offsets, outcome)
        return Settled(offsets, bool(expired), dead), events

    def _failed(
        self,
        config: GroupConfig,
        window: QueueWindow,
        queue: QueueKey,
        offsets: Int64s,
        outcome: Failed,
    ) -> tuple[Int64s, list[ReceiveEvent]]:
        """The messages that become dead letters, and the events of all."""
        if not len(offsets):
            return _NONE, []
        at = np.searchsorted(window.rows["offset"], offsets)
        attempts = window.rows["attempts"][at]
        exhausted = attempts > config.receive_attempts_max
        if outcome.dead_letter:
            exhausted[:] = True
        dead = offsets[exhausted]
        events = [self.dead_letters.take(config.consumer_group, queue, dead)] if len(dead) else []
        left, tries = offsets[~exhausted], attempts[~exhausted]
        for tried in np.unique(tries).tolist():
            delay_ms = outcome.delay_ms
            if delay_ms is None:
                delay_ms = self._policy_ms(config, tried - 1)
            events += _events(
                EventKind.HIDE,
                config.consumer_group,
                queue,
                left[tries == tried],
                until_ms=self.now_ms() + delay_ms,
                flags=EventFlag.GIVEN_BACK,
            )
        return dead, events

    def _policy_ms(self, config: GroupConfig, tried_before: int) -> int:
        """The delay before the next attempt by the group's policy."""
        span_ms = wait_ms(config.retry_policy, tried_before)
        if span_ms is None:
            level = min(FIRST_LEVEL + tried_before, len(self.delay_levels_ms))
            return self.delay_levels_ms[level - 1]
        return span_ms

    async def _bury(self, group: str, settlement: Settlement, dead: Int64s) -> Int64s:
        """Turn messages into dead letters; returns the offsets of those that are refused."""
        outcome = settlement.outcome
        rejected = isinstance(outcome, Failed) and outcome.dead_letter
        return await self.dead_letters.bury(
            group,
            settlement.queue,
            dead,
            reason=DeadLetterReason.REJECTED if rejected else DeadLetterReason.ATTEMPTS_EXHAUSTED,
            cause=outcome.cause if isinstance(outcome, Failed) else "",
        )


def _events(
    kind: int,
    group: str,
    queue: QueueKey,
    offsets: Int64s,
    *,
    until_ms: int = 0,
    flags: int = EventFlag.NONE,
    holder: bytes = b"",
) -> list[ReceiveEvent]:
    """One event for all offsets; none if there are no offsets."""
    if not len(offsets):
        return []
    ranges = ranges_of(offsets)
    return [ReceiveEvent(kind, group, queue, flags, ranges, until_ms=until_ms, holder=holder)]


def _others(window: QueueWindow, settlement: Settlement, own_count: int) -> bool:
    """Whether named messages belong to another receipt by now, or to none.

    Settled messages do not count: they are done.
    """
    ranges = settlement.ranges
    if ranges is None or own_count == sum(ranges[:, 1].tolist()):
        return False
    # Offsets behind the end: a power loss has taken the record that they were handed out.
    if _beyond(window.end, ranges):
        return True
    return len(rows_within(window.rows["offset"], ranges)) > own_count


def _beyond(end: int, ranges: Ranges) -> bool:
    """Whether some of the messages lie at an offset or behind it."""
    return bool((ranges[:, 0] + ranges[:, 1] > end).any())
