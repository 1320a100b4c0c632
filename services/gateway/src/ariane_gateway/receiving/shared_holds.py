"""Receives of many clients that want the same: few of them are held by the broker.

A thousand consumers of one group, all waiting for a message that does not come, would be a thousand
calls that the broker holds. So only one of them *leads*: its call is at the broker. The others
follow: they wait here, and cost a future each. When a leader has its messages, or its time is over,
followers take its place, in the order in which they came::

    a call comes    another one is held    -> follows
                    none, or none for long -> leads: messages are flowing
    a leader ends   with messages          -> two followers lead: there may be more
                    without                -> one follower leads, unless another call is held

Users wait apart, for brokers judge the rights of each: who may not receive hears so at once.
Calls of an attempt that was here before lead at once: their answer was lost, and what it had waits
for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ariane_gateway.brokers.acting import USER
from ariane_gateway.brokers.receive_calls import Delivery, ReceiveCalls, ReceiveOrder

HELD_S: Final = 0.01
"""A call that has no answer for so long is held: brokers answer others sooner."""

HELD_TIMES: Final = 3
"""Or for so many times as long as brokers took of late, where they or this process are busy."""

ANSWER_S_MAX: Final = 0.2
"""An answer that took longer waited for its messages."""

LEADERS_MAX: Final = 64
"""Calls for one kind of messages that are at the broker while messages flow."""

ATTEMPTS_MAX: Final = 10_000
"""The latest attempts are remembered."""

_Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True, eq=False)
class _Line:
    """The calls that want the same."""

    leaders: list[float] = field(default_factory=list)
    """When each call began that is at the broker."""
    followers: deque[asyncio.Future[None]] = field(default_factory=deque)
    """Futures of those that wait here, the oldest first; done when it is their turn."""
    call_count: int = 0
    """How many calls there are, leading, waiting, or between the two."""

    def is_crowded(self, now_s: float, held_s: float) -> bool:
        """Whether a call that comes has to wait here, as another one is held for so long."""
        leaders = self.leaders
        return bool(leaders) and (now_s - leaders[0] >= held_s or len(leaders) >= LEADERS_MAX)

    def call_followers(self, count: int) -> None:
        """Let so many followers lead."""
        while count and self.followers:
            turn = self.followers.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1


class SharedHolds:
    """Receives for clients that wait together."""

    def __init__(self, calls: ReceiveCalls, monotonic: Callable[[], float]) -> None:
        self._calls = calls
        self._monotonic = monotonic
        self._lines: dict[_Key, _Line] = {}
        self._attempts: dict[tuple[str, str], None] = {}
        self._answer_s = 0.0

    @property
    def leading(self) -> int:
        """How many calls are at brokers."""
        return sum(len(line.leaders) for line in self._lines.values())

    async def receive(self, broker_name: str, order: ReceiveOrder, hold_s: float) -> list[Delivery]:
        """Receive messages of a broker; none if the hold time ended.

        Raises:
            Refused: The broker refused, or did not answer.
        """
        key = (
            USER.get(),
            broker_name,
            order.group,
            order.wanted,
            order.count_max,
            order.invisible_s,
            order.by_priority,
            order.several_of_a_group,
        )
        line = self._lines.setdefault(key, _Line())
        deadline_s = self._monotonic() + hold_s
        line.call_count += 1
        waits = hold_s > 0 and not self._is_repeated(order)
        try:
            if waits and line.is_crowded(self._monotonic(), self._held_s):
                if not await _turn_of(line, hold_s):
                    return []
                hold_s = max(0.0, deadline_s - self._monotonic())
            return await self._lead(line, broker_name, order, hold_s)
        finally:
            line.call_count -= 1
            if not line.call_count:
                del self._lines[key]

    async def _lead(
        self, line: _Line, broker_name: str, order: ReceiveOrder, hold_s: float
    ) -> list[Delivery]:
        began_s = self._monotonic()
        line.leaders.append(began_s)
        deliveries: list[Delivery] = []
        try:
            deliveries = await self._calls.receive(broker_name, order, hold_s)
            return deliveries
        finally:
            line.leaders.remove(began_s)
            now_s = self._monotonic()
            if deliveries:
                if now_s - began_s < ANSWER_S_MAX:
                    self._answer_s += (now_s - began_s - self._answer_s) / 4
                line.call_followers(2)
            elif not line.is_crowded(now_s, self._held_s):
                line.call_followers(1)

    @property
    def _held_s(self) -> float:
        return max(HELD_S, HELD_TIMES * self._answer_s)

    def _is_repeated(self, order: ReceiveOrder) -> bool:
        """Whether an attempt was here before; notes it."""
        if not order.attempt_id:
            return False
        attempt = order.group, order.attempt_id
        if attempt in self._attempts:
            return True
        if len(self._attempts) >= ATTEMPTS_MAX:
            del self._attempts[next(iter(self._attempts))]
        self._attempts[attempt] = None
        return False


async def _turn_of(line: _Line, hold_s: float) -> bool:
    """Wait for the turn to lead; return whether it came in time."""
    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    line.followers.append(turn)
    try:
        async with asyncio.timeout(hold_s):
            await turn
    except TimeoutError:
        if not turn.done() or turn.cancelled():
            return False
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():
            line.call_followers(1)  # The turn that came goes to the next.
        raise
    finally:
        if turn in line.followers:
            line.followers.remove(turn)
    return True
