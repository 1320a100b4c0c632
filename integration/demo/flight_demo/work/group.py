"""The consumer group of two processes, seen from the demo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from flight_demo.children import Child, child
from flight_demo.errors import GroupStalled
from flight_demo.stages import Stage
from flight_demo.work.ledger import LedgerTotals
from flight_demo.work.member import MemberOrders

MEMBERS = 2

_JOIN_SECONDS = 60.0
_SILENCE_SECONDS = 20.0
"""After so long without a new event the group is taken to be stuck."""


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """What the whole group saw."""

    ledger: LedgerTotals
    """The members' figures, added up."""

    missing: int
    """Events that no member saw."""

    seen_by_both: int
    """Events that both members saw."""


class _Member:
    """One member, and the latest that it said."""

    def __init__(self, process: Child, seen_path: Path) -> None:
        self.process = process
        self.seen_path = seen_path
        self.queues: frozenset[str] = frozenset()
        self.distinct = 0
        self.totals: LedgerTotals | None = None

    async def listen(self, news: asyncio.Event) -> None:
        """Keep up with what the member says, until its totals."""
        async for line in self.process.hear_until("totals"):
            match line["event"]:
                case "assigned":
                    self.queues = frozenset(line["queues"])
                case "progress":
                    self.distinct = line["distinct"]
                case "totals":
                    self.totals = LedgerTotals.from_json(line["totals"])
            news.set()


class ConsumerGroup:
    """Two running members."""

    def __init__(self, members: Sequence[_Member], event_count: int) -> None:
        self._members = members
        self._event_count = event_count
        self._news = asyncio.Event()
        self._listening: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin to listen to the members."""
        self._listening = [asyncio.create_task(m.listen(self._news)) for m in self._members]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)

    async def wait_assigned(self, queues: Collection[str], stage: Stage) -> None:
        """Wait until the members share `queues`, each with at least one and none with another's.

        Raises:
            GroupStalled: They do not in time.
            ChildFailed: A member ended.
        """
        wanted = sorted(queues)
        try:
            async with asyncio.timeout(_JOIN_SECONDS):
                while sorted(queue for m in self._members for queue in m.queues) != wanted or any(
                    not m.queues for m in self._members
                ):
                    await self._wait_for_news(_JOIN_SECONDS)
                    stage.note(" and ".join(f"{len(m.queues)} queues" for m in self._members))
        except TimeoutError as error:
            shares = "; ".join(", ".join(sorted(m.queues)) or "none" for m in self._members)
            raise GroupStalled(
                f"the members did not share the queues, but hold {shares}"
            ) from error

    async def go(self) -> None:
        """Let the members take messages."""
        for member in self._members:
            await member.process.tell("go")

    async def follow(self, stage: Stage, published: int) -> None:
        """Show the group's progress until it saw as many distinct events as were published.

        Raises:
            GroupStalled: Nothing new comes, but not everything came.
            ChildFailed: A member ended.
        """
        while True:
            distinct = sum(member.distinct for member in self._members)
            stage.reach(distinct)
            if distinct >= published:
                return
            await self._wait_for_growth(distinct, published)

    async def settle(self) -> GroupTotals:
        """Tell the members to stop, and return what they saw.

        Raises:
            ChildFailed: A member ended without its totals.
        """
        for member in self._members:
            await member.process.tell("stop")
        await asyncio.gather(*self._listening)
        seen = np.zeros(self._event_count, dtype=np.uint8)
        for member in self._members:
            seen += np.fromfile(member.seen_path, dtype=np.uint8)
        return GroupTotals(
            ledger=LedgerTotals.sum(m.totals for m in self._members if m.totals is not None),
            missing=int(np.count_nonzero(seen == 0)),
            seen_by_both=int(np.count_nonzero(seen > 1)),
        )

    async def _wait_for_growth(self, distinct: int, published: int) -> None:
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                while sum(member.distinct for member in self._members) == distinct:
                    await self._wait_for_news(_SILENCE_SECONDS)
        except TimeoutError as error:
            raise GroupStalled(
                f"the group saw {distinct:,} of {published:,} events and nothing new"
                f" for {_SILENCE_SECONDS:.0f} s"
            ) from error

    async def _wait_for_news(self, seconds: float) -> None:
        """Wait until a member says something; a member that ended raises here."""
        self._news.clear()
        news = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait(
                [news, *self._listening], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            news.cancel()
        for task in self._listening:
            if task.done():
                task.result()


@asynccontextmanager
async def consumer_group(
    name_servers: str, topic: str, group: str, event_count: int, folder: Path
) -> AsyncIterator[ConsumerGroup]:
    """Run the members while the block runs; their logs and marks go into `folder`."""
    async with AsyncExitStack() as stack:
        members = []
        for number in range(1, MEMBERS + 1):
            orders = MemberOrders(
                name_servers, topic, group, event_count, folder / f"seen-{number}.bin"
            )
            process = await stack.enter_async_context(
                child(
                    f"member-{number}",
                    "flight_demo.work.member",
                    orders.to_arguments(),
                    folder=folder,
                )
            )
            members.append(_Member(process, orders.seen_path))
        yield await stack.enter_async_context(ConsumerGroup(members, event_count))
