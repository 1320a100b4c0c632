"""Background work of the store: flushes, filing of index keys, room for the writer, retention.

All of it waits on the disk and runs in the keeper thread, except repairs of queues: a repair may
read the whole log and has a thread of its own. Segments that retention deletes are first removed
from the store's view on the loop, between two reads; then the keeper thread deletes their files,
one after another with a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from ariane_broker.log.early_deletions import EarlyDeletions
from ariane_broker.log.recovery_words import RecoveryProgress
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import Clock, Loop, get_logger
from ariane_storage.errors import StoreFull, StorePoisoned
from ariane_storage.keeping.retention import RetentionPlan, RetentionReport
from ariane_storage.log.damage import Damage
from ariane_storage.recovery.queue_repair import QueueRepair
from ariane_storage.store import Store

FLUSH_TICK_SECONDS: Final = 0.1
"""Seconds between questions to the store what is due; its own intervals decide."""

PREPARE_SECONDS_MAX: Final = 1.0
PREPARE_STEP_BYTES: Final = 8 << 20
"""New room is prepared ahead of the writer whenever it has used up this much."""

FILING_TICK_SECONDS: Final = 0.1
FILING_STEP_KEYS: Final = 1 << 16
"""With this many waiting keys they are filed at once: fewer are not worth another thread's time."""

INDEX_BACKLOG_KEYS: Final = 1 << 20
"""Waiting keys, at most: 20 MB, some seconds of the highest rate, enough to flush an index file and
allocate the next one. Beyond it an append files some keys itself, so the backlog is bounded."""

REPAIR_TICK_SECONDS: Final = 0.1
"""Seconds between questions whether reads have met wrong entries of queues."""

RETENTION_SECONDS: Final = 10.0

DELETION_PAUSE_S: Final = 0.1
"""Seconds after the deletion of each segment: at the hour when many are due, disk and keeper thread
are free for others in between."""

_log = get_logger(__name__)


class Copying(NamedTuple):
    """What other copies of the log have to do with retention."""

    delete_to: Callable[[], int | None]
    """Returns where the primary's log begins, for a replica: it deletes what the primary has
    deleted, and nothing else. None for a primary."""
    may_begin: Callable[[int], Awaitable[bool]]
    """Awaited before the log begins at a later offset: a primary has to announce it first, or
    nothing is deleted now."""


class StoreKeeping:
    """The loops that do the background work."""

    def __init__(
        self,
        store: Store,
        keeper: Executor,
        clock: Clock,
        *,
        flush_tick_seconds: float,
        disk_refuse_ratio: float,
        copies: Copying | None = None,
        on_flushed: Callable[[], None],
        on_repaired: Callable[[Collection[QueueKey]], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """``keeper`` is the thread that waits on the disk; the callbacks are called on the loop.

        With ``disk_refuse_ratio`` of the disk in use the store refuses writes. ``copies``: what
        other copies of the log have to do with retention; None without any. ``on_failed`` has to
        end the broker.
        """
        self._store = store
        self._keeper = keeper
        self._on_flushed = on_flushed
        self._on_repaired = on_repaired
        self._repair: asyncio.Future[list[QueueRepair]] | None = None
        self._on_failed = on_failed
        self._prepared_offset = 0
        self._append_refusal = ""
        self._needed_from: list[Callable[[], int | None]] = []
        self._disk_refuse_ratio = disk_refuse_ratio
        self._copies = copies
        self._full_reasons: dict[str, str] = {}
        self._known_damage: frozenset[Damage] | None = None
        self._unreadable_logged = 0
        self._clock = clock
        self._releasing = asyncio.Lock()
        self._released: list[RetentionPlan] = []
        self.last_retention: RetentionReport | None = None
        """Report of the last turn of retention."""
        self.early_deletions = EarlyDeletions()
        """Counts of early deletions."""
        self.disk_used_ratio = 0.0
        """Share of the disk in use at the last look, 0 to 1."""
        self._flushing = Loop("flush-due", self._flush, interval_s=flush_tick_seconds, clock=clock)
        self._filing = Loop(
            "file-keys", self._file_keys, interval_s=FILING_TICK_SECONDS, clock=clock
        )
        self._repairing = Loop(
            "repair-queues", self._repair_queues, interval_s=REPAIR_TICK_SECONDS, clock=clock
        )
        self._preparing = Loop(
            "prepare-segment", self._prepare, interval_s=PREPARE_SECONDS_MAX, clock=clock
        )
        self._retention = Loop(
            "retention", self._apply_retention, interval_s=RETENTION_SECONDS, clock=clock
        )

    def start(self) -> None:
        """Start all loops; the store is open."""
        self._known_damage = frozenset(self._store.damage)
        self._unreadable_logged = len(self._store.unreadable)
        # Before the first turn of retention: a disk that is full already must refuse writes.
        self._check_disk(self._store.disk_used_ratio)
        self._flushing.start()
        self._filing.start()
        self._repairing.start(at_once=True)
        self._preparing.start(at_once=True)
        self._retention.start(at_once=True)

    async def stop(self) -> None:
        """Stop all loops; work in the keeper thread ends by itself.

        A repair of queues is interrupted: the next start begins it anew.
        """
        if self._known_damage is not None:
            self._store.repairs.stop()
        await self._repairing.stop()
        if self._repair is not None:
            await asyncio.wait((self._repair,))
        await self._retention.stop()
        await self._preparing.stop()
        await self._filing.stop()
        await self._flushing.stop()
        if self._known_damage is not None:
            self._log_damage()

    @property
    def refusal(self) -> str:
        """Why the store refuses writes; empty if it accepts them."""
        if self._store.is_poisoned:
            return "a flush failed; restart the broker"
        if self.disk_used_ratio >= self._disk_refuse_ratio:
            return f"the disk is {self.disk_used_ratio:.0%} full"
        return self._append_refusal

    def appended(self, next_commit_log_offset: int) -> None:
        """Note that the log has grown to this commit-log offset."""
        self._append_refusal = ""
        if next_commit_log_offset - self._prepared_offset >= PREPARE_STEP_BYTES:
            self._prepared_offset = next_commit_log_offset
            self._preparing.wake()
        if self._store.keeping.waiting_keys >= FILING_STEP_KEYS:
            self._filing.wake()

    def refused(self, reason: str) -> None:
        """Note that the store had no room for an append."""
        self._append_refusal = reason

    def keep_needed(self, needed_from: Callable[[], int | None]) -> None:
        """Add a bound for retention: it deletes nothing behind it.

        Args:
            needed_from: Returns the commit-log offset to keep from; None for no bound.
        """
        self._needed_from.append(needed_from)

    @property
    def needed_from(self) -> int:
        """The commit-log offset from which on the log must be kept; call it on the loop.

        Records appended after this call are not known yet, so all of them must be kept.
        """
        floors = [needed() for needed in self._needed_from]
        return min([self._store.max_offset, *(floor for floor in floors if floor is not None)])

    async def _flush(self) -> None:
        self._log_damage()
        keeping = self._store.keeping
        if not keeping.is_flush_due or await self._in_keeper("flush", keeping.flush_due):
            self._on_flushed()  # Others may have flushed, too.

    async def _file_keys(self) -> None:
        if self._store.keeping.waiting_keys:
            await self._in_keeper("file keys", self._store.keeping.file_keys)

    async def _repair_queues(self) -> None:
        """Repair wrong entries of queues, in a thread of its own, however long it takes."""
        if not self._store.repairs.needed:
            return
        _log.warning("queue_repair_begun")
        progress = RecoveryProgress("queue_repair_progress")
        loop = asyncio.get_running_loop()
        self._repair = loop.run_in_executor(None, self._store.keeping.repair_queues, progress)
        try:
            repairs = await asyncio.shield(self._repair)
        except (StorePoisoned, StoreFull) as error:
            self._handle_failure("repair queues", error)
            return
        self._full_reasons.pop("repair queues", None)
        for repair in repairs:
            _log.warning(
                "queue_repaired",
                topic=repair.topic,
                queue_id=repair.queue_id,
                begin_queue_offset=repair.begin,
                end_queue_offset=repair.end,
                restored_count=repair.restored,
                lost_count=repair.lost,
            )
        self._on_repaired([QueueKey(repair.topic, repair.queue_id) for repair in repairs])

    async def _prepare(self) -> None:
        if await self._in_keeper("prepare", self._store.keeping.prepare_next_segment):
            self._append_refusal = ""

    async def clean(self, *, dry_run: bool) -> RetentionPlan:
        """Delete all segments that are old enough now, at any hour; see ``RetentionPlan``.

        Returns when log and queues begin behind them; their files go as at other times, one after
        another with a pause. A replica deletes only what its primary has deleted.

        Args:
            dry_run: Only choose.

        Raises:
            StorePoisoned: The disk failed.
            StoreFull: No space for the notes that must be written before; nothing is deleted.
        """
        if dry_run:
            return await self._choose(by_hand=True)
        plan = await self._release(by_hand=True)
        self._released.append(plan)
        self._retention.wake()
        return plan

    async def _apply_retention(self) -> None:
        try:
            self._released.append(await self._release(by_hand=False))
            while self._released:
                await self._delete(self._released[0])
                del self._released[0]
        except (StorePoisoned, StoreFull) as error:
            self._handle_failure("retention", error)
            return
        self._full_reasons.pop("retention", None)

    async def _choose(self, *, by_hand: bool) -> RetentionPlan:
        keeping, copies = self._store.keeping, self._copies
        choose = partial(
            keeping.plan_retention,
            keep_from=self.needed_from,
            delete_to=copies.delete_to() if copies is not None else None,
            by_hand=by_hand,
        )
        return await asyncio.get_running_loop().run_in_executor(self._keeper, choose)

    async def _release(self, *, by_hand: bool) -> RetentionPlan:
        """Choose segments, and let log and queues begin behind them."""
        copies = self._copies
        async with self._releasing:
            plan = await self._choose(by_hand=by_hand)
            if plan.segments and copies is not None and not await copies.may_begin(plan.min_offset):
                plan = replace(plan, segments=(), queue_begins=())
            self._store.keeping.let_go(plan)
        return plan

    async def _delete(self, plan: RetentionPlan) -> None:
        """Delete the files of released segments."""
        loop, keeping = asyncio.get_running_loop(), self._store.keeping
        for segment in plan.segments:
            await loop.run_in_executor(self._keeper, keeping.delete_segment, segment)
            await self._clock.sleep(DELETION_PAUSE_S)
        report = await loop.run_in_executor(self._keeper, keeping.finish_retention, plan)
        self.last_retention = report
        self.early_deletions.note(report, self._clock.now_ms())
        self._check_disk(report.disk_ratio)

    def _check_disk(self, used: float) -> None:
        """Log when the disk becomes too full to write to, and when it has room again."""
        used_before, self.disk_used_ratio = self.disk_used_ratio, used
        limit = self._disk_refuse_ratio
        ratios = {"disk_used_ratio": round(used, 3), "disk_refuse_ratio": limit}
        if used_before < limit <= used:
            _log.warning("writes_refused", **ratios)
        elif used < limit <= used_before:
            _log.info("writes_accepted", **ratios)

    def _log_damage(self) -> None:
        """Log what reads have found damaged or unreadable since the last time."""
        found = self._store.damage
        for damage in found:
            if damage not in (self._known_damage or ()):
                _log.warning(
                    "damage_found",
                    begin_commit_log_offset=damage.begin,
                    end_commit_log_offset=damage.end,
                    reason=damage.reason.value,
                )
        self._known_damage = frozenset(found)
        for place in self._store.unreadable[self._unreadable_logged :]:
            self._unreadable_logged += 1
            _log.warning(
                "file_unreadable",
                path=str(place.path),
                position=place.position,
                reason=place.reason,
            )

    async def _in_keeper(self, name: str, step: Callable[[], None]) -> bool:
        """Run a step in the keeper thread; returns whether it succeeded."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._keeper, step)
        except (StorePoisoned, StoreFull) as error:
            self._handle_failure(name, error)
            return False
        self._full_reasons.pop(name, None)
        return True

    def _handle_failure(self, name: str, error: StorePoisoned | StoreFull) -> None:
        """End the broker, or log that the disk is full: once, not every time."""
        if isinstance(error, StorePoisoned):
            self._on_failed(error)
            return
        if error.reason != self._full_reasons.get(name):
            _log.error("store_full", reason=error.reason)
        self._full_reasons[name] = error.reason
