"""The handling of messages that are missing in a range to read."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from typing import Final, NoReturn

from ariane_record.counted import are, counted
from ariane_sdk import MessageQueue
from ariane_spark.errors import DataLost
from ariane_spark.positions.offsets import Bounds

_log: Final = logging.getLogger(__name__)

_WAY_OUT: Final = (
    "To skip what is lost and go on, set the option 'failOnDataLoss' to 'false'; what is skipped"
    " is then counted in the log."
)


class DataLossPolicy:
    """Fails, or logs the missing messages once and continues."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        """Whether a loss ends the query."""
        self._reported: set[str] = set()

    def queue_gone(self, queue: MessageQueue, position: int) -> None:
        """Report a queue that was read and that no live broker has now.

        Raises:
            DataLost: A loss ends the query.
        """
        self._report(
            f"{queue}: no live broker offers this queue, which was to be read from {position} on;"
            " its topic was deleted, or its broker is away, or the query was stopped when its"
            " broker was drained and removed"
        )

    def brokers_away(self, topic: str, broker_names: Iterable[str]) -> None:
        """Report brokers that have queues of a topic, and are away.

        Raises:
            DataLost: A loss ends the query.
        """
        self._report(
            f"{topic}: {', '.join(sorted(broker_names))} left lately, and may come back; what has"
            " been stored there would be missing"
        )

    def queue_left(self, queue: MessageQueue, position: int) -> None:
        """Report a queue of the checkpoint that the query does not read.

        Raises:
            DataLost: A loss ends the query.
        """
        self._report(
            f"{queue}: the checkpoint is at {position} there, but the query does not read it any"
            " more; a query that reads something else needs a checkpoint of its own"
        )

    def queue_shrunk(self, queue: MessageQueue, position: int, kept: Bounds) -> None:
        """Report a queue that ends before the position that was reached in it.

        Raises:
            DataLost: A loss ends the query.
        """
        self._report(
            f"{queue}: was to be read from {position} on, but ends at {kept.latest}; it was"
            " deleted and made anew, or lost its end",
            "it is read again from what is kept",
        )

    def queue_cut(self, queue: MessageQueue, position: int, end: int) -> None:
        """Report a queue that was created anew, or lost its end, since a position was reached.

        Args:
            queue: The queue.
            position: The position.
            end: The offset up to which the queue is unchanged.

        Raises:
            DataLost: A loss ends the query.
        """
        self._report(
            f"{queue}: was at {position}, and is what it was up to {end} only: its topic was"
            " deleted and made anew since, or its broker lost the end of its log, as with the"
            f" power; what lay from {end} on is lost"
        )

    def out_of_range(self, queue: MessageQueue, begin: int, end: int, kept: Bounds) -> None:
        """Report a range that goes beyond the kept one.

        Args:
            queue: The queue.
            begin: The start of the range.
            end: Its end.
            kept: The kept range of the queue.

        Raises:
            DataLost: A loss ends the query.
        """
        if begin >= end:
            self._report(f"{queue}: was to be read from {begin} on, but ends at {kept.latest}")
            return
        readable = max(0, min(end, kept.latest) - max(begin, kept.earliest))
        lost = max(0, end - begin) - readable
        self._report(
            f"{queue}: [{begin}, {end}) was to be read, [{kept.earliest}, {kept.latest}) is kept;"
            f" {counted(lost, 'message')} {are(lost)} lost"
        )

    def ended_early(self, queue: MessageQueue, begin: int, end: int) -> None:
        """Report a queue that ends before the end of a range, even after repeats.

        Raises:
            DataLost: A loss ends the query.
        """
        self._report(
            f"{queue}: [{begin}, {end}) was to be read, but the queue ends at {begin};"
            f" {counted(end - begin, 'message')} {are(end - begin)} lost"
        )

    def damaged(self, queue: MessageQueue, first: int, count: int) -> None:
        """Report messages that their broker has lost, in the middle of a queue.

        Raises:
            DataLost: A loss ends the query.
        """
        self._report(
            f"{queue}: {counted(count, 'message')} from {first} on {are(count)} lost: damaged in"
            " the broker"
        )

    def _report(self, text: str, instead: str = "") -> None:
        if self.fails:
            _fail(text)
        text = f"{text}; {instead}" if instead else text
        if text not in self._reported:
            self._reported.add(text)
            _log.warning("%s", text)


def warn_of_missing_brokers(queues: Iterable[MessageQueue], uncertain: Container[str]) -> None:
    """Say in the log that what is read once may not be all.

    Args:
        queues: The queues that are known.
        uncertain: Topics of which name servers may not know all brokers yet.
    """
    if topics := sorted({queue.topic for queue in queues if queue.topic in uncertain}):
        _log.warning(
            "name servers have just started, or do not answer; brokers of %s may be missing",
            ", ".join(topics),
        )


def _fail(text: str) -> NoReturn:
    raise DataLost(f"{text}. {_WAY_OUT}")
