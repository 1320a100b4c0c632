"""Members of groups that own queues, as programs of played processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from ariane_sdk import AllocationStrategy, PushConsumer

if TYPE_CHECKING:
    from ariane_sdk import ReceivedMessage
    from played_world.machines.process import Process
    from played_world.programs.services import Program
    from played_world.programs.stage import Stage

FAILS: Final = 0.02
"""How often a listener fails."""

SLOW: Final = 0.2
SLOW_S: Final = (0.05, 0.3, 2.0)
"""How often it takes its time, and how much."""

STUBBORN: Final = 0.02
STUBBORN_TRIES: Final = 4
"""In some worlds: how many messages fail again and again, and by when they are taken at the latest.
Each wait for the next try is longer than the one before."""

LATE_S: Final = 4.0
"""How long a group waits that begins with the newest messages: topics are made meanwhile."""


class Broken(Exception):
    """A listener has failed."""


class Member(NamedTuple):
    """What a member of a group is to do."""

    group: str
    """Its group."""
    topics: list[str]
    """What it subscribes to."""
    strategy: Callable[[], AllocationStrategy]
    """How its group shares queues."""
    ordered: bool = False
    """Whether it consumes in order."""
    is_plain: bool = False
    """Whether its listener is a plain function, which runs in a thread."""
    is_late: bool = False
    """Whether its group begins with the newest messages."""
    batch_size: int = 32
    """The most messages for one call of its listener: a slow one has few in work for long."""


class _Listeners:
    """Listeners of a process, which fail now and then."""

    def __init__(self, stage: Stage, name: str, member: Member, process: Process) -> None:
        self._stage = stage
        self._name = name
        self._member = member
        self._process = process
        self._chance = process.chance
        self._tries = stage.tries.setdefault(member.group, Counter())

    async def listen(self, messages: Sequence[ReceivedMessage]) -> None:
        """Listen on the loop."""
        self._take(messages)
        group = self._member.group
        owning = self._stage.owning(self._process, group, messages)
        with owning if self._member.ordered else nullcontext():
            if self._chance.random() < SLOW:
                await asyncio.sleep(self._chance.choice(SLOW_S))
            if self._process.drags_s:
                await asyncio.sleep(self._process.drags_s)
        if self._chance.random() < FAILS or self._is_refused(messages):
            raise Broken
        self._stage.finish(group, messages)

    def listen_plainly(self, messages: Sequence[ReceivedMessage]) -> None:
        """Listen in a thread."""
        self._take(messages)
        if self._chance.random() < SLOW:
            self._process.block(self._chance.choice(SLOW_S))
        if self._process.drags_s:
            self._process.block(self._process.drags_s)
        if self._chance.random() < FAILS or self._is_refused(messages):
            raise self._chance.choice((Broken, StopIteration))
        self._stage.finish(self._member.group, messages)

    def _is_refused(self, messages: Sequence[ReceivedMessage]) -> bool:
        """Whether one of them is to fail again."""
        if not self._stage.is_disturbed or not self._stage.are_stubborn:
            return False
        refused = False
        for message in messages:
            value = bytes(message.body)
            draw = crc32(value, len(self._member.group)) / 2**32
            self._tries[value] += draw < STUBBORN
            refused |= 0 < self._tries[value] < 1 + STUBBORN_TRIES * draw / STUBBORN
        return refused

    def _take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Note that messages have come."""
        self._stage.happens("works", self._name)
        for message in messages:
            self._stage.got(self._member.group, self._name, message)


def push_consumer(stage: Stage, name: str, member: Member) -> Program:
    """A member of a group that owns queues."""

    async def run(process: Process) -> None:
        process.leave_by(asyncio.current_task())
        if member.is_late:
            await asyncio.sleep(LATE_S)
        listeners = _Listeners(stage, name, member, process)
        consumer = PushConsumer(
            stage.name_servers,
            group=member.group,
            subscriptions=dict.fromkeys(member.topics, "*"),
            listener=listeners.listen_plainly if member.is_plain else listeners.listen,
            start="latest" if member.is_late else "earliest",
            ordered=member.ordered,
            batch_size=member.batch_size,
            strategy=member.strategy(),
            clock=process.machine.clock,
            random=process.chance,
        )
        async with consumer:
            if member.is_late:
                while not consumer.assignment:  # noqa: ASYNC110 - perhaps others have all.
                    await asyncio.sleep(0.1)
                stage.history.begin(member.group, stage.world.timeline.now)
            await consumer.run_until_stopped(handle_signals=False)

    return run
