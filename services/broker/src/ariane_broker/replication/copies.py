"""A primary's record of its replicas: how far each has copied the log, and what all of them have.

Everything before the smallest of these places is *confirmed*::

    own log        |---------------------------------|   written; under synchronous flush: flushed
    broker 1       |-----------------------------|       in sync
    broker 2       |------------------|                  not in sync: no confirmation waits for it
                                                 ^
                                                 confirmed

A confirmation waits for all members of the in-sync set, and for replicas that are about to join:
so each broker that can be elected by the shared row has all that is confirmed.

Topics and groups are not in the log. After a change of them, later records count in a copy only
once the copy has the change, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ariane_storage.copying.log_copy import LogRange

WINDOW_S: Final = 60.0
"""The longest wait of the window before is kept until this one ends."""


class Progress(NamedTuple):
    """The progress that a replica reports."""

    received: int
    """Commit-log offset before which it has received every byte."""
    written: int
    """Commit-log offset before which it has written every record."""
    flushed: int
    """Commit-log offset before which it has flushed every record."""
    state_version: int
    """Version of topics and groups that it has."""
    missing: Sequence[LogRange] = ()
    """Ranges before ``written`` that it misses or knows to be damaged."""


@dataclass(slots=True)
class LongestWait:
    """The longest wait of the last one to two windows."""

    _begin_s: float = 0.0
    _longest_s: float = 0.0
    _before_s: float = 0.0

    def note(self, waited_s: float, now_s: float) -> None:
        """Note a wait that ended now."""
        self._move(now_s)
        self._longest_s = max(self._longest_s, waited_s)

    def longest_s(self, now_s: float) -> float:
        """The longest wait, in seconds."""
        self._move(now_s)
        return max(self._longest_s, self._before_s)

    def _move(self, now_s: float) -> None:
        windows = int((now_s - self._begin_s) / WINDOW_S)
        if windows:
            self._before_s = self._longest_s if windows == 1 else 0.0
            self._begin_s, self._longest_s = now_s, 0.0


@dataclass(slots=True)
class Copy:
    """The primary's record of one replica."""

    broker_id: int
    """Its id."""
    address: str = ""
    """The address from which it follows."""
    written: int = 0
    """Commit-log offset before which it has written all."""
    flushed: int = 0
    """Commit-log offset before which it has flushed all."""
    attached: bool = False
    """Whether it follows now."""
    caught_up_s: float = 0.0
    """When it last had the whole log, topics and groups, by the monotonic clock."""
    heard_s: float = 0.0
    """When it last reported."""
    state_version: int = 0
    """Version of topics and groups that it has."""
    missing: Sequence[LogRange] = ()
    """Ranges before ``written`` that it misses or knows to be damaged."""
    waits: LongestWait = field(default_factory=LongestWait)
    """How long sends have waited for it."""
    _end_before: int = 0
    _end_before_s: float = 0.0
    _version_awaited: int = 0

    def progressed(
        self, written: int, flushed: int, *, end: int, now_s: float, version: int = 0
    ) -> None:
        """Note a replica's progress.

        Args:
            written: Commit-log offset before which it has written all.
            flushed: Commit-log offset before which it has flushed all.
            end: Where the primary's log ends.
            now_s: The monotonic clock.
            version: The primary's version of topics and groups.
        """
        self.written, self.flushed, self.heard_s = written, min(flushed, written), now_s
        # One that gets the log but not the topics becomes late, too. The next version is awaited
        # only now: where topics change all the time, a copy never has the newest one.
        if self.state_version >= self._version_awaited:
            self._version_awaited = version
            if written >= end:
                self.caught_up_s = now_s
            elif written >= self._end_before:
                self.caught_up_s = max(self.caught_up_s, self._end_before_s)
        self._end_before, self._end_before_s = end, now_s


def lacks_more(missing: Sequence[LogRange], others: Sequence[LogRange]) -> bool:
    """Whether ranges are missing in one log that are not missing in the other."""
    return any(
        not any(other.begin <= one.begin and one.end <= other.end for other in others)
        for one in missing
    )


class Copies:
    """All replicas of a primary."""

    def __init__(
        self, in_sync: Iterable[int], now_s: float, *, flushed: bool, behind_s_max: float
    ) -> None:
        """Begin with members, beside the primary, that have not reported in this reign.

        ``flushed``: whether a copy counts only once it is flushed on the replica. A member that is
        behind for ``behind_s_max`` is taken out.
        """
        self._flushed = flushed
        self._behind_s_max = behind_s_max
        self.members: dict[int, Copy] = {
            broker_id: Copy(broker_id, caught_up_s=now_s) for broker_id in in_sync
        }
        self._waited_for = frozenset(self.members)
        self._inherited_end = 0
        # Versions, and the end of the log at each; versions that all replicas have are removed.
        self._state_changes: list[tuple[int, int]] = []
        self._news = asyncio.Event()

    @property
    def waited_for(self) -> frozenset[int]:
        """The replicas that a confirmation waits for."""
        return self._waited_for

    def inherit(self, end: int, now_s: float) -> None:
        """Note where the log ended, and when this reign began: nobody is late by an earlier time.

        All that earlier primaries confirmed lies before, also while members in sync have not
        reported their progress yet.
        """
        self._inherited_end = end
        for copy in self.members.values():
            copy.caught_up_s = now_s

    def attached(self, broker_id: int, address: str, now_s: float) -> Copy:
        """Note that a replica follows; its progress is unknown until it reports."""
        copy = self.members.setdefault(broker_id, Copy(broker_id, caught_up_s=now_s))
        copy.address, copy.attached, copy.heard_s = address, True, now_s
        copy.written = copy.flushed = copy.state_version = 0
        return copy

    def progressed(
        self, copy: Copy, progress: Progress, *, end: int, version: int, now_s: float
    ) -> None:
        """Note a replica's progress, while the primary has a log's end and a version of state."""
        has_more = progress.state_version > copy.state_version
        copy.state_version, copy.missing = progress.state_version, progress.missing
        copy.progressed(progress.written, progress.flushed, end=end, now_s=now_s, version=version)
        if has_more:
            self.wake()

    def held_up(self, copy: Copy, waited_s: float, now_s: float) -> None:
        """Note that records were confirmed by a replica's report after some seconds."""
        if copy.broker_id in self._waited_for:
            copy.waits.note(waited_s, now_s)

    def state_changed(self, version: int, end: int) -> None:
        """Note that topics or groups changed when the log ended at an offset."""
        self._state_changes.append((version, end))

    def wait_for(self, in_sync: Iterable[int]) -> None:
        """Set the replicas that are in the in-sync set, or about to join it."""
        self._waited_for = frozenset(in_sync)
        self.wake()

    def forget(self, broker_id: int) -> None:
        """A broker was taken out for good: nobody waits for it, unless it has come back."""
        self._waited_for -= {broker_id}
        if broker_id in self.members and not self.members[broker_id].attached:
            del self.members[broker_id]

    def safe(self, copy: Copy) -> int:
        """The commit-log offset up to which a replica's copy counts."""
        safe = copy.flushed if self._flushed else copy.written
        for version, end in self._state_changes:
            if copy.state_version < version:
                return min(safe, end)
        return safe

    def have_log(self, broker_ids: Collection[int], end: int) -> bool:
        """Whether these have written everything before a commit-log offset."""
        known = [self.members[one] for one in broker_ids if one in self.members]
        return len(known) == len(broker_ids) and all(copy.written >= end for copy in known)

    def have_state(self, version: int) -> bool:
        """Whether all that are waited for have a version of the state files."""
        known = [self.members[one] for one in self._waited_for if one in self.members]
        return len(known) == len(self._waited_for) and all(
            copy.state_version >= version for copy in known
        )

    async def wait_for_state(self, wait_s: float) -> None:
        """Wait until others may have the state, but no longer than some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()

    def wake(self) -> None:
        """Have all that wait for state look again."""
        self._news.set()
        self._news = asyncio.Event()

    def _forget_state_changes(self) -> None:
        known = min((copy.state_version for copy in self.members.values()), default=0)
        if self._state_changes and self._state_changes[0][0] <= known:
            self._state_changes = [one for one in self._state_changes if one[0] > known]

    def confirmed(self, own: int) -> int:
        """The commit-log offset up to which the primary and all replicas waited for have the log.

        Args:
            own: The offset up to which the primary's own log counts.
        """
        self._forget_state_changes()
        others = (self.members[one] for one in self._waited_for if one in self.members)
        known = [self.safe(copy) for copy in others]
        return min([own, *known]) if len(known) == len(self._waited_for) else 0

    def late(self, now_s: float) -> frozenset[int]:
        """Members that were behind for too long."""
        return frozenset(
            one
            for one in self._waited_for
            if one not in self.members or now_s - self.members[one].caught_up_s > self._behind_s_max
        )

    def ready(self, confirmed: int, state_version: int, now_s: float) -> frozenset[int]:
        """Replicas that may join the in-sync set: they have all that is confirmed and keep pace.

        Changes of topics are acknowledged without waiting for them: they must have the latest.
        """
        needed = self._needed(confirmed)
        return frozenset(
            copy.broker_id
            for copy in self.members.values()
            if copy.attached
            and copy.broker_id not in self._waited_for
            and self.safe(copy) >= needed
            and copy.state_version >= state_version
            and now_s - copy.caught_up_s <= self._behind_s_max / 2
        )

    def still_have(self, ready: frozenset[int], confirmed: int) -> frozenset[int]:
        """Those that were ready and still have all that is confirmed, as far as is known now."""
        needed = self._needed(confirmed)
        known = (self.members[one] for one in ready if one in self.members)
        return frozenset(copy.broker_id for copy in known if self.safe(copy) >= needed)

    def _needed(self, confirmed: int) -> int:
        return max(confirmed, self._inherited_end)
