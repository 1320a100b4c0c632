"""Publishes the rules to every process: a stream to each, with all of them after each change.

Changes of this admin are sent at once; those of another admin of the same database are found within
two seconds. A process that is away is tried again, and has the rules of its disk until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from grpc import RpcError

from ariane.common.v1 import access_service_pb2 as access_pb
from ariane.common.v1.access_rules_pb2 import AccessRules
from ariane.common.v1.access_service_pb2_grpc import AccessServiceStub
from ariane_admin.users.store import UserStore
from ariane_servicekit import Loop, get_logger, open_channel
from ariane_servicekit.clock import Clock
from ariane_servicekit.database import Database, DatabaseError

LOOK_S: Final = 2.0
"""Seconds between two looks at the version, and between two words to a process."""

FIND_S: Final = 5.0
"""Seconds between two looks for processes."""

AGAIN_S: Final = 2.0
"""Seconds before a process is tried again."""

PART_BYTES_MAX: Final = 1 << 20
"""Bytes of rules in one message."""

AHEAD_MAX: Final = 1_000_000
"""Changes by which a process may be ahead of the database, as where this is an older copy. One that
was taken over says what it likes: beyond the largest number no change could be told any more."""

CATCH_UP_S: Final = 60.0
"""Seconds between two times that a process is believed to be ahead: all are told anew."""

_log = get_logger(__name__)


class RulesPublisher:
    """Keeps a stream to each process.

    Args:
        store: The rules.
        database: The database, whose threads read.
        processes: Returns the addresses of all processes.
        clock: The clock.
    """

    def __init__(
        self,
        store: UserStore,
        database: Database,
        processes: Callable[[], Awaitable[Collection[str]]],
        clock: Clock,
    ) -> None:
        self._store = store
        self._database = database
        self._processes = processes
        self._clock = clock
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._absurd: set[str] = set()
        self._parts: Sequence[access_pb.PushAccessRulesRequest] = ()
        self._version = -1
        self._caught_up_s = float("-inf")
        self.is_closed = False
        """Whether admin stops."""
        self._changed = asyncio.Event()
        self._looking = Loop("access-version", self._look, interval_s=LOOK_S, clock=clock)
        self._finding = Loop("access-processes", self._find, interval_s=FIND_S, clock=clock)

    def start(self) -> None:
        """Begin."""
        self._looking.start(at_once=True)
        self._finding.start(at_once=True)

    async def stop(self) -> None:
        """End all streams. Repeating is harmless."""
        await self._finding.stop()
        await self._looking.stop()
        tasks, self._streams = list(self._streams.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def changed(self) -> None:
        """Rules have changed here."""
        self._looking.wake()

    @property
    def change(self) -> asyncio.Event:
        """Happens when the next version is there, or admin stops."""
        return self._changed

    async def wait_for(self, change: asyncio.Event) -> None:
        """Wait for a change, two seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await change.wait()

    def close(self) -> None:
        """Let who waits for changes end. Repeating is harmless."""
        self.is_closed = True
        self._wake()

    async def _look(self) -> None:
        """Read the rules if their version is another."""
        version = await self._database.call(self._store.version)
        if version == self._version:
            return
        rules = await self._database.call(self._store.rules)
        self._parts = [*_parts_of(rules)]
        first = self._version <= 0 < rules.version
        self._version = rules.version
        if first:
            self._finding.wake()
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _find(self) -> None:
        if self._version <= 0:
            return  # There never was a user: there is nothing to send.
        found = set(await self._processes())
        for address in found - self._streams.keys():
            self._streams[address] = asyncio.create_task(
                self._push(address), name=f"rules-{address}"
            )
        for address in self._streams.keys() - found:
            self._streams.pop(address).cancel()
            self._absurd.discard(address)

    async def _push(self, address: str) -> None:
        """Tell a process for as long as it is there."""
        async with open_channel(address) as channel:
            while True:
                try:
                    await self._follow(address, AccessServiceStub(channel).PushAccessRules())
                # A stream that ended between two words says so by the last of them.
                except (RpcError, OSError, asyncio.InvalidStateError) as error:
                    _log.info("access_rules_not_sent", address=address, cause=str(error)[:200])
                except DatabaseError as error:
                    _log.warning("access_rules_unread", cause=str(error))
                await self._clock.sleep(AGAIN_S)

    async def _follow(self, address: str, stream: Any) -> None:
        answer = await stream.read()
        while hasattr(answer, "version"):
            # An absurd one keeps its rules until it begins anew; the others need no new version.
            if not self._is_absurd(address, answer.version) and answer.version > self._version >= 0:
                await self._catch_up(answer.version)
            change = self.change
            if answer.version < self._version:
                for part in self._parts:
                    await stream.write(part)
                answer = await stream.read()
                continue
            await self.wait_for(change)
            await stream.write(access_pb.PushAccessRulesRequest())

    def _is_absurd(self, address: str, held: int) -> bool:
        """Whether no process can hold such a version; logged once until that is over."""
        if held - self._version <= AHEAD_MAX:
            self._absurd.discard(address)
            return False
        if address not in self._absurd:
            self._absurd.add(address)
            _log.error("access_rules_absurd", address=address, database=self._version, held=held)
        return True

    async def _catch_up(self, held: int) -> None:
        """Let the rules be newer than what a process holds."""
        now_s = self._clock.monotonic()
        if now_s - self._caught_up_s < CATCH_UP_S:
            return
        self._caught_up_s = now_s
        # The database is a copy from before: its rules hold from now on all the same.
        _log.warning("access_rules_older", database=self._version, held=held)
        await self._database.call(self._store.raise_version, held)
        self._looking.wake()


def _parts_of(rules: AccessRules) -> Iterator[access_pb.PushAccessRulesRequest]:
    """Cut rules into messages."""
    part = AccessRules(version=rules.version)
    size = 0
    for field in ("users", "disabled_users", "roles", "quotas"):
        for entry in getattr(rules, field):
            bytes_of_entry = len(entry) if isinstance(entry, str) else entry.ByteSize()
            size += bytes_of_entry
            if size > PART_BYTES_MAX:
                yield access_pb.PushAccessRulesRequest(part=part)
                part, size = AccessRules(version=rules.version), bytes_of_entry
            getattr(part, field).append(entry)
    yield access_pb.PushAccessRulesRequest(part=part, last=True)
