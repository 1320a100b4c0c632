"""Taking a primary's log in: where both part, what is cut, and the bytes that follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ariane_broker.replication.log_feed import LogRun
from ariane_servicekit import get_logger
from ariane_storage.log.epoch_history import EpochStart, common_end
from ariane_storage.store import Store

_log = get_logger(__name__)


class CannotFollow(Exception):
    """The primary's log does not go on where this one can: an operator has to look."""


class Welcome(NamedTuple):
    """Where a primary says that a replica goes on.

    Attributes:
        epoch: The primary's.
        epochs: Those of its log, oldest first.
        begin: Where the first bytes come from.
        end: Where its log ends.
        silence_s: For how long it is never silent.
    """

    epoch: int
    epochs: Sequence[EpochStart]
    begin: int
    end: int
    silence_s: float


class LogTaker:
    """A replica's log as its primary fills it.

    Attributes:
        confirmed: Everything before it was confirmed by some primary, and this log and the
            primary's agree on it; None: it was never told.
    """

    def __init__(self, store: Store, forget_snapshots: Callable[[], None]) -> None:
        """Take the parts.

        Args:
            store: Where to.
            forget_snapshots: Removes, durably, what was saved of state that follows from the log,
                before an end of the log is cut that it may speak of. Blocks.
        """
        self._store = store
        self._forget_snapshots = forget_snapshots
        self.confirmed: int | None = None

    def heard(self, confirmed: int) -> None:
        """The primary says what is confirmed."""
        self.confirmed = max(confirmed, self.confirmed or 0)
        self._store.copying.confirm_up_to(self.confirmed)

    def agree(self, welcome: Welcome) -> None:
        """Make this log end where the primary goes on. Blocks.

        Raises:
            CannotFollow: It would have to be cut elsewhere than the primary says.
            StorageError: The disk is full or has failed.
        """
        store, begin = self._store, welcome.begin
        store.copying.forget_waiting()
        if store.max_offset == store.min_offset:
            self._forget_snapshots()
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
        if begin < end:
            self._forget_snapshots()
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

    def _lower_confirmed(self, begin: int) -> None:
        """What lies behind the common end is not what was confirmed there.

        A primary that is alone in sync and flushes asynchronously may lose what it has confirmed
        with the power. What comes in its place is confirmed anew.
        """
        if self.confirmed is not None:
            self.confirmed = min(self.confirmed, begin)

    def take(self, run: LogRun) -> None:
        """Append bytes of the primary.

        Raises:
            StorageError: They are not what comes next, or the disk is full or has failed.
        """
        copying = self._store.copying
        epochs = copying.epochs
        if not epochs or epochs[-1].epoch != run.epoch:
            copying.begin_epoch(run.epoch, run.epoch_begin)
        copying.append(run.begin, run.content)
