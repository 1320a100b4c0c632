"""Mending a replica's log: ranges that it misses or that are damaged are fetched from the primary.

::

    +---------+ +----+----+----+ +---------------+
    | missing | |    |dmgd|    | |      | damaged|      the last segment
    +---------+ +----+----+----+ +---------------+
      fetched,         fetched,         cut: the primary sends it again with what follows
      file made        in place

After something was fetched, the process opens the store anew: consume queues and index are rebuilt
from the whole log. Until then the ranges are not read, and the broker is not in sync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final

from ariane.replication.v1 import log_service_pb2 as log_pb
from ariane.replication.v1.log_service_pb2_grpc import LogServiceStub
from ariane_broker.replication.log_taker import CannotFollow
from ariane_record.checksums.checksum import crc32
from ariane_servicekit import get_logger
from ariane_storage.copying.log_copy import LogRange
from ariane_storage.store import Store

FETCH_S_MAX: Final = 120.0
"""Seconds for one range: a segment, as a rule."""

_log = get_logger(__name__)


class LogMending:
    """Mends the log of one store. Lives on one loop."""

    def __init__(
        self,
        store: Store,
        keeper: Executor,
        *,
        set_begin: Callable[[], int],
        forget_snapshots: Callable[[], None],
        on_mended: Callable[[], None],
    ) -> None:
        """``set_begin`` returns where the log of the set begins.

        ``forget_snapshots`` removes, blocking, snapshots of state derived from the log;
        ``on_mended`` is called when the store has to be opened anew.
        """
        self._store = store
        self._keeper = keeper
        self._set_begin = set_begin
        self._forget_snapshots = forget_snapshots
        self._on_mended = on_mended

    @property
    def missing(self) -> tuple[LogRange, ...]:
        """Ranges that are missing or known to be damaged."""
        return self._store.copying.missing(self._set_begin())

    def cut_damaged_end(self) -> Future[bool] | None:
        """Begin to cut damage from the last segment; None if it has none.

        The primary sends everything behind the cut again.
        """
        copying = self._store.copying
        places = [one.begin for one in self.missing if one.end > copying.last_segment_begin]
        if not places or places[0] < self._store.min_offset:
            return None
        return self._keeper.submit(self._cut, places[0])

    def _cut(self, commit_log_offset: int) -> bool:
        self._forget_snapshots()
        cut = self._store.copying.truncate(commit_log_offset)
        _log.warning(
            "damaged_end_cut",
            begin_commit_log_offset=cut.begin,
            end_commit_log_offset=cut.end,
        )
        return True

    async def fetch(self, channel: Any, agreed: int) -> bool:
        """Fetch what is missing before the last segment, as far as the primary has it.

        Args:
            channel: To the primary.
            agreed: Up to which commit-log offset both logs agree: what follows will be cut, and the
                primary has other records there.

        Returns:
            Whether something was fetched: the store must be opened anew.

        Raises:
            AioRpcError: The primary did not answer.
            CannotFollow: Bytes were changed on their way.
            StorageError: The disk is full or has failed.
        """
        wanted = [one for one in self.missing if one.begin < agreed]
        mended = [one for one in wanted if await self._fetch(channel, one)]
        if mended:
            await self._run(self._store.copying.mended, mended)
            self._on_mended()
        return bool(mended)

    async def _fetch(self, channel: Any, wanted: LogRange) -> bool:
        """Fetch a range; returns whether the primary had it."""
        request = log_pb.FetchLogRequest(
            set_id=self._store.copying.set_id,
            begin_commit_log_offset=wanted.begin,
            end_commit_log_offset=wanted.end,
        )
        place = wanted.begin
        async for response in LogServiceStub(channel).FetchLog(request, timeout=FETCH_S_MAX):
            content = response.log_bytes
            if crc32(content) != response.log_crc32:
                raise CannotFollow(f"bytes of {place} were changed on their way")
            await self._run(self._store.copying.mend, place, content)
            place += len(content)
        is_whole = place == wanted.end
        words = "log_mended" if is_whole else "primary_misses_it_too"
        _log.warning(words, begin_commit_log_offset=wanted.begin, end_commit_log_offset=wanted.end)
        return is_whole

    async def _run(self, work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._keeper, work, *given)
