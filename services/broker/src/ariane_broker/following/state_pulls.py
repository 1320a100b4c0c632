"""Pulling the state files of a primary: those that differ, whole, and each stored in its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, Final, NamedTuple

from grpc import aio

from ariane.replication.v1 import state_service_pb2 as state_pb
from ariane_broker.replication.log_taker import CannotFollow
from ariane_broker.replication.state_copies import (
    DECIDED,
    STATE_FILE_BYTES_MAX,
    StateCopies,
    StatePart,
)
from ariane_servicekit import get_logger
from ariane_storage.errors import StorageError
from ariane_storage.store import Store

STATE_CALL_S_MAX: Final = 30.0
STATE_STEP_S: Final = 0.05
"""Interval of checks whether the log has reached the end that pulled state files include."""

_log = get_logger(__name__)


class StatePull(NamedTuple):
    """State files of a primary, to be stored here."""

    end: int
    """Snapshots are stored once the log reaches this commit-log offset."""
    deleted_topics: dict[str, int]
    """Commit-log offset up to which each topic's records are deleted."""
    parts: list[StatePart]
    """The files."""
    version: int
    """Their version of topics and groups."""


class StatePulls:
    """Keeps the state files of a store like a primary's. Lives on one loop."""

    def __init__(
        self,
        store: Store,
        state: StateCopies,
        keeper: Executor,
        *,
        interval_s: float,
        sleep: Callable[[float], Awaitable[None]],
        on_state: Callable[[], Awaitable[None]],
    ) -> None:
        """``keeper`` waits for the disk; ``interval_s`` is between pulls that nobody has asked for.

        ``on_state`` is awaited when files of decisions may have changed.
        """
        self.version = 0
        """The primary's version of topics and groups that is stored here; 0 before the first."""
        self.on_stored: Callable[[], None] = _do_nothing
        """Called when a version was stored."""
        self._store = store
        self._state = state
        self._keeper = keeper
        self._interval_s = interval_s
        self._sleep = sleep
        self._on_state = on_state
        self._wanted = asyncio.Event()

    def begin(self) -> None:
        """Begin to follow a primary: nothing of its state is here."""
        self.version = 0
        self._wanted.clear()

    def ask_for(self, version: int) -> None:
        """Pull soon, unless a version is stored already."""
        if version > self.version:
            self._wanted.set()

    async def pull(self, stub: Any, *, wait: bool) -> None:
        """Pull the state once, and store it.

        Args:
            stub: A ``StateServiceStub``.
            wait: Whether to wait until the log has reached what snapshots include.

        Raises:
            CannotFollow: A file is too large.
            AioRpcError: The call has failed.
            StorageError: The store is full or has failed.
            OSError: The disk failed.
        """
        await self._put(await self._pull(stub), wait=wait)

    async def keep_pulling(self, stub: Any) -> None:
        """Pull again and again, and at once when asked; a pull that fails is logged."""
        while True:
            sleeping = asyncio.ensure_future(self._sleep(self._interval_s))
            waking = asyncio.ensure_future(self._wanted.wait())
            try:
                await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeping.cancel()
                waking.cancel()
            self._wanted.clear()
            try:
                await self.pull(stub, wait=True)
            except (aio.AioRpcError, StorageError, OSError) as error:
                cause = error.details() if isinstance(error, aio.AioRpcError) else str(error)
                _log.warning("state_pull_failed", cause=cause)

    async def _pull(self, stub: Any) -> StatePull:
        known = await self._run(self._state.versions)
        request = state_pb.PullStateRequest(
            known_files=[
                state_pb.StateFileVersion(name=name, content_crc32=crc)
                for name, crc in known.items()
            ]
        )
        end, version, deleted = 0, 0, dict[str, int]()
        parts: list[StatePart] = []
        gathered = bytearray()
        responses: AsyncIterator[Any] = stub.PullState(request, timeout=STATE_CALL_S_MAX)
        async for response in responses:
            if response.HasField("head"):
                end = response.head.max_commit_log_offset
                version = response.head.state_version
                deleted = dict(response.head.deleted_topic_ends)
                continue
            gathered += response.piece.content
            if len(gathered) > STATE_FILE_BYTES_MAX:
                raise CannotFollow(f"{response.piece.name} is too large for a state file")
            if response.piece.is_last:
                parts.append(StatePart(response.piece.name, bytes(gathered)))
                gathered.clear()
        return StatePull(end, deleted, parts, version)

    async def _put(self, pull: StatePull, *, wait: bool) -> None:
        """Store state files: files of decisions at once, and report their version to the primary.

        Not before the log has all records of deleted topics, or with a later pull: the rest would
        bring these topics back. Snapshots follow once the log reaches the end that they include.
        """
        decided = [part for part in pull.parts if part.name in DECIDED]
        are_deleted = await self._put_all(decided, pull.deleted_topics)
        if decided:
            await self._on_state()
        while not are_deleted:
            if not wait or self._wanted.is_set():
                self._wanted.set()
                return
            await self._sleep(STATE_STEP_S)
            if self._store.max_offset >= max(pull.deleted_topics.values()):
                are_deleted = await self._put_all([], pull.deleted_topics)
        self.version = pull.version
        self.on_stored()
        snapshots = [part for part in pull.parts if part.name not in DECIDED]
        while wait and self._store.max_offset < pull.end and not self._wanted.is_set():
            await self._sleep(STATE_STEP_S)
        if self._store.max_offset >= pull.end:
            await self._put_all(snapshots, {})

    async def _put_all(self, parts: list[StatePart], deleted_topics: dict[str, int]) -> bool:
        """Store files; returns whether the log had all records of deleted topics."""
        if not parts and not deleted_topics:
            return True
        return bool(await self._run(self._put_parts, parts, deleted_topics))

    def _put_parts(self, parts: list[StatePart], deleted_topics: dict[str, int]) -> bool:
        end = self._store.max_offset
        self._store.flush()
        self._store.copying.note_deleted(deleted_topics)
        for part in reversed(parts):  # Topics last, as they were saved: see ``StateCopies.parts``.
            self._state.put(part)
        return max(deleted_topics.values(), default=0) <= end

    async def _run(self, work: Callable[..., Any], *given: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._keeper, work, *given)


def _do_nothing() -> None:
    """Do nothing, where nobody is to be called back."""
