"""Copying a primary's log: cutting off the end on which both logs differ, and appending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ariane_broker.replication.log_feed import LogChunk
from ariane_servicekit import get_logger
from ariane_storage.copying.log_copy import Junction
from ariane_storage.log.epoch_history import EpochStart, common_end
from ariane_storage.store import Store

_log = get_logger(__name__)


def other_set(own: str, other: str) -> str:
    """Why a log cannot follow one of another set, in words."""
    return (
        f"its store belongs to the replica set {own or 'of none'}, not to {other}: point it to its "
        "own store, or to an empty folder, which it fills from the primary"
    )


class CannotFollow(Exception):
    """The primary's log does not continue this one: an operator has to act."""


class Welcome(NamedTuple):
    """A primary's first answer to a replica."""

    epoch: int
    """The primary's epoch."""
    epochs: Sequence[EpochStart]
    """The epochs of its log, oldest first."""
    begin: int
    """Commit-log offset of the first byte that it will send."""
    end: int
    """The end of its log."""
    silence_s: float
    """The longest time without a message from it."""
    set_id: str
    """The set that its log belongs to."""
    junction: Junction
    """Its bytes right before ``begin``."""


class LogTaker:
    """Fills a replica's log with the bytes of its primary."""

    def __init__(self, store: Store, forget_snapshots: Callable[[int], None]) -> None:
        """``forget_snapshots`` removes snapshots that include the log at or behind an offset.

        They are of state derived from the log. It blocks, does so durably, and is called before
        that part of the log is cut off, and after a crash, which may have lost it.
        """
        self._store = store
        self._forget_snapshots = forget_snapshots
        self.confirmed: int | None = None
        """Commit-log offset before which all is confirmed by a primary, and equal in both logs;
        None: no primary has reported one."""

    def note_confirmed(self, confirmed: int) -> None:
        """Note the confirmed offset that the primary reports."""
        self.confirmed = max(confirmed, self.confirmed or 0)
        self._store.copying.confirm_up_to(self.confirmed)

    def agree(self, welcome: Welcome) -> None:
        """Cut this log where the primary continues it. Blocks.

        Raises:
            CannotFollow: The logs agree up to another offset than the primary's.
            StorageError: The disk is full or has failed.
        """
        store, begin = self._store, welcome.begin
        if store.copying.set_id not in {"", welcome.set_id}:
            raise CannotFollow(other_set(store.copying.set_id, welcome.set_id))
        store.copying.forget_waiting()
        if store.max_offset == store.min_offset:
            store.copying.join_set(welcome.set_id)
            self._forget_snapshots(-1)
            self._lower_confirmed(begin)
            store.copying.truncate(store.min_offset)
            store.copying.start_at(begin)
            store.copying.adopt_epochs(welcome.epochs)
            return
        end = store.max_offset
        common = common_end(store.copying.epochs, end, welcome.epochs, welcome.end)
        if common != begin or begin < store.min_offset:
            raise CannotFollow(
                f"the primary goes on at {begin}, but both logs agree up to {common}: empty this "
                "store and let it copy the primary's"
            )
        self._check_junction(welcome)
        if begin < end or store.recovery.crashed:
            self._forget_snapshots(begin)
        self._lower_confirmed(begin)
        cut = store.copying.truncate(begin)
        store.copying.adopt_epochs(welcome.epochs)
        if cut.begin < cut.end:
            _log.warning(
                "log_truncated",
                begin_commit_log_offset=cut.begin,
                end_commit_log_offset=cut.end,
                epoch=welcome.epoch,
            )

    def _check_junction(self, welcome: Welcome) -> None:
        """Check the bytes before the place where the primary goes on: epochs may lie.

        Two brokers with copies of one store may have begun the same epoch at the same offset.
        """
        size_bytes = min(welcome.junction.size_bytes, welcome.begin - self._store.min_offset)
        if size_bytes < welcome.junction.size_bytes or not size_bytes:
            return  # This log begins there.
        if self._store.copying.junction(welcome.begin) != welcome.junction:
            raise CannotFollow(
                f"both logs should be equal up to {welcome.begin}, and the bytes before it differ: "
                "empty this store and let it copy the primary's"
            )

    def _lower_confirmed(self, begin: int) -> None:
        """Lower the confirmed offset to the end that both logs have in common.

        A primary that is alone in sync and flushes asynchronously may lose confirmed records in a
        power failure. The records in their place are confirmed anew.
        """
        if self.confirmed is not None:
            self.confirmed = min(self.confirmed, begin)

    def take(self, chunk: LogChunk) -> None:
        """Append bytes of the primary.

        Raises:
            StorageError: They do not follow the log's end, or the disk is full or has failed.
        """
        copying = self._store.copying
        epochs = copying.epochs
        if not epochs or epochs[-1].epoch != chunk.epoch:
            copying.begin_epoch(chunk.epoch, chunk.epoch_begin)
        copying.append(chunk.begin, chunk.content)
