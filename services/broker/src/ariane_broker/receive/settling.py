"""Settling: messages are done, stay invisible for longer, or come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupConfig
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.dead_letters import DeadLetters
from ariane_broker.receive.handing_out.receive_order import KEPT_MS
from ariane_broker.receive.in_hand.queue_window import QueueWindow
from ariane_broker.receive.in_hand.ranges import Ranges, ranges_of, rows_within
from ariane_broker.receive.in_hand.receive_events import EventFlag, EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.waits import FIRST_LEVEL, wait_ms
from ariane_storage.log.records.fields import Int64s


@dataclass(frozen=True, slots=True)
class Done:
    """Messages are done."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Messages stay invisible for so long from now on, in the same hands."""

    span_ms: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The broker keeps messages invisible by itself while a client is attached."""

    client_id: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Messages failed.

    Attributes:
        delay_ms: When they come again; None: as the group's policy says.
        dead_letter: Whether they become dead letters at once.
        cause: Why, for people.
    """

    delay_ms: int | None = None
    dead_letter: bool = False
    cause: str = ""


Outcome: TypeAlias = Done | Hidden | Kept | Failed
DONE: Final = Done()


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of messages of one receipt.

    Attributes:
        queue: Where they are.
        serial: Of the receipt.
        ranges: Which of them; None: all that are left.
        outcome: What becomes of them.
    """

    queue: QueueKey
    serial: int
    ranges: Ranges | None = None
    outcome: Outcome = DONE


class Settled(NamedTuple):
    """What became of a settlement.

    Attributes:
        settled: Messages for which it holds; ascending offsets.
        expired: Whether others that it names are not the receipt's any more.
        dead: Those that became dead letters; ascending offsets.
        until_ms: Until when those are invisible that stay so; 0 where it is not one time.
    """

    settled: Int64s
    expired: bool
    dead: Int64s
    until_ms: int = 0


_NONE: Final = np.empty(0, np.int64)


class Settling:
    """Settles messages."""

    def __init__(
        self,
        log: ReceiveLog,
        dead_letters: DeadLetters,
        *,
        groups: ConsumerGroups,
        delay_levels_ms: Sequence[int],
        now_ms: Callable[[], int],
        ready: Callable[[str], None],
        freed: Callable[[str, QueueKey], None],
    ) -> None:
        """Take the parts.

        Args:
            log: Where changes are written down.
            dead_letters: Makes dead letters.
            groups: The consumer groups of this broker.
            delay_levels_ms: How long each delay level waits, level 1 first.
            now_ms: Milliseconds since the epoch.
            ready: Is told of a group that may have more to receive.
            freed: Is told of a group and a queue of which others may have more.
        """
        self._log = log
        self._dead_letters = dead_letters
        self._groups = groups
        self._delay_levels_ms = delay_levels_ms
        self._now_ms = now_ms
        self._ready = ready
        self._freed = freed

    async def settle(self, group: str, settlements: Sequence[Settlement]) -> list[Settled]:
        """Settle messages of a group; returns when that is as safe as the broker promises.

        Raises:
            ServiceError: GROUP_NOT_FOUND, FLUSH_UNCONFIRMED, and of dead letters what
                ``DeadLetters.bury`` says.
            StorageError: Nothing is settled, or not all that became a dead letter.
        """
        config = self._groups.get(group)
        results: list[Settled] = []
        events: list[ReceiveEvent] = []
        for settlement in settlements:
            result, own = self._plan(config, settlement)
            results.append(result)
            events += own
        if events:
            self._log.write(events)
            self._ready(group)
            for queue in {event.queue for event in events}:
                self._freed(group, queue)
        for settlement, result in zip(settlements, results, strict=True):
            if len(result.dead):
                await self._bury(group, settlement, result.dead)
        if events:
            await self._log.promised()
        return results

    def _plan(
        self, config: GroupConfig, settlement: Settlement
    ) -> tuple[Settled, list[ReceiveEvent]]:
        group, queue = config.consumer_group, settlement.queue
        window = self._log.window(group, queue)
        if window is None:
            return Settled(_NONE, expired=True, dead=_NONE), []
        offsets = window.find(settlement.serial, settlement.ranges)
        outcome = settlement.outcome
        if isinstance(outcome, Done):
            settled = Settled(offsets, _others(window, settlement, len(offsets)), _NONE)
            return settled, list(_events(EventKind.SETTLE, group, queue, offsets))
        expired = settlement.ranges is not None and len(offsets) < settlement.ranges[:, 1].sum()
        if isinstance(outcome, Hidden):
            until_ms = self._now_ms() + outcome.span_ms
            events = list(_events(EventKind.HIDE, group, queue, offsets, until_ms=until_ms))
            return Settled(offsets, bool(expired), _NONE, until_ms), events
        if isinstance(outcome, Kept):
            # What is shown to others already stays so: its client has said it, or was too late.
            now_ms = self._now_ms()
            offsets = np.setdiff1d(offsets, window.offsets[window.visible(now_ms)])
            until_ms = now_ms + KEPT_MS
            holder = outcome.client_id.encode()
            events = list(
                _events(EventKind.HIDE, group, queue, offsets, until_ms=until_ms, holder=holder)
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
        """Which messages become dead letters, and what becomes of all."""
        if not len(offsets):
            return _NONE, []
        at = np.searchsorted(window.rows["offset"], offsets)
        attempts = window.rows["attempts"][at]
        exhausted = attempts > config.attempts_max
        if outcome.dead_letter:
            exhausted[:] = True
        dead = offsets[exhausted]
        events = [self._dead_letters.take(config.consumer_group, queue, dead)] if len(dead) else []
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
                until_ms=self._now_ms() + delay_ms,
                flags=EventFlag.GIVEN_BACK,
            )
        return dead, events

    def _policy_ms(self, config: GroupConfig, tried_before: int) -> int:
        """How long the group's policy has a message wait."""
        span_ms = wait_ms(config.retry_policy, tried_before)
        if span_ms is None:
            level = min(FIRST_LEVEL + tried_before, len(self._delay_levels_ms))
            return self._delay_levels_ms[level - 1]
        return span_ms

    async def _bury(self, group: str, settlement: Settlement, dead: Int64s) -> None:
        outcome = settlement.outcome
        rejected = isinstance(outcome, Failed) and outcome.dead_letter
        await self._dead_letters.bury(
            group,
            settlement.queue,
            dead,
            reason=DeadLetterReason.REJECTED if rejected else DeadLetterReason.ATTEMPTS_EXHAUSTED,
            cause=outcome.cause if isinstance(outcome, Failed) else "",
        )


def _events(
    kind: EventKind,
    group: str,
    queue: QueueKey,
    offsets: Int64s,
    *,
    until_ms: int = 0,
    flags: EventFlag = EventFlag.NONE,
    holder: bytes = b"",
) -> Iterator[ReceiveEvent]:
    """What the log says, if there is anything to say."""
    if len(offsets):
        ranges = ranges_of(offsets)
        yield ReceiveEvent(kind, group, queue, flags, ranges, until_ms=until_ms, holder=holder)


def _others(window: QueueWindow, settlement: Settlement, own_count: int) -> bool:
    """Whether messages that are named as done are not: they are another's by now, or nobody's.

    Those that are settled count as done.
    """
    ranges = settlement.ranges
    if ranges is None:
        return False
    # Nobody has what lies behind the end: that it was handed out, a power loss has taken.
    if bool((ranges[:, 0] + ranges[:, 1] > window.end).any()):
        return True
    return len(rows_within(window.rows["offset"], ranges)) > own_count
