"""The epochs of the log: whether a position that was learnt earlier still means the same messages.

Two things take that from it: a lost end of the log, and a topic that was deleted and made anew.

Under asynchronous flush a power loss takes the end of the log, and the messages that come next get
the queue offsets of those that were lost. Somebody who had read beyond the new end, and comes back
after these have come, would skip them. And somebody who stood at 100 in a topic, and finds another
one of the same name that has 200 messages, would skip 100 of them. So every opening of the store
and every deletion of topics begins an epoch, positions carry the epoch that they were learnt in,
and the broker remembers where the log ended when each epoch began::

    epoch a   |-----------------------------------|        a position p of epoch a
    epoch b   |------------------------|                   begins here: p lies beyond, is refused
    epoch c   |------------------------------------------- p would lie within, is refused too

What a position of an epoch means is kept up to the least of the ends at which later ones began.
Messages of a topic made anew all lie behind the end at which the epoch of the deletion began, so
that in it every position of an earlier epoch is refused but 0; in all other topics they stand.

An orderly stop begins an epoch, too, that nobody learns: if another program (RocketMQ, on the same
store) deletes topics and makes them anew before the next start, their messages lie behind it.

``config/logEpochs.json``, which RocketMQ does not know: number and begin of each, oldest first::

    {"version": 1, "epochs": [[5203867203857265291, 0], [770203467234586234, 123904]]}

That of a deletion is written before a topic of the same name is made, with what groups had in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ariane_broker.errors import queue_cut
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_storage.store import Store

FILE_NAME: Final = "logEpochs.json"

EPOCHS_MAX: Final = 4096
"""Older ones are forgotten. A position of one that is not known is not believed."""

_VERSION: Final = 1
_NUMBER_MAX: Final = (1 << 63) - 1


class LogEpochs:
    """The epochs of one store; the last is the present one.

    Attributes:
        current: The number of the present epoch; 0 before it has begun.
    """

    def __init__(
        self, log: Store, statistics: BrokerStatistics, *, draw: Callable[[int], int]
    ) -> None:
        """Know of none.

        Args:
            log: The store.
            statistics: Counts positions that are refused.
            draw: A random number from 0 up to its argument, exclusive. Numbers are drawn, not
                counted: a store that was put back from a copy must not use one again.
        """
        self.current = 0
        self._log = log
        self._statistics = statistics
        self._draw = draw
        self._epochs: list[tuple[int, int]] = []
        self._kept_ends: dict[int, int] = {}

    def load(self, document: Mapping[str, Any]) -> None:
        """Take over a file.

        Raises:
            KeyError, TypeError, ValueError: The file has another shape.
        """
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']} is not known here")
        self._epochs = [(int(number), int(begin)) for number, begin in document["epochs"]]

    def begin(self) -> None:
        """Begin another epoch where the log ends now."""
        self.current = 1 + self._draw(_NUMBER_MAX)
        self._epochs = [*self._epochs[1 - EPOCHS_MAX :], (self.current, int(self._log.max_offset))]
        self._kept_ends = {}
        kept_end = self._epochs[-1][1]
        for number, begin in reversed(self._epochs[:-1]):
            self._kept_ends[number] = kept_end
            kept_end = min(kept_end, begin)

    def document(self) -> dict[str, Any]:
        """The file as it is to be written now."""
        return {"version": _VERSION, "epochs": [list(epoch) for epoch in self._epochs]}

    def check(self, queue: QueueKey, queue_offset: int, log_epoch: int) -> None:
        """See that what lay before a position is still there.

        Args:
            queue: The queue.
            queue_offset: The position.
            log_epoch: The epoch that it was learnt in; 0: nothing is checked.

        Raises:
            ServiceError: QUEUE_CUT.
        """
        if log_epoch in {0, self.current}:
            return
        # Of an epoch that is not known everything may be gone: the log may be another one.
        kept_end = self._kept_ends.get(log_epoch, 0)
        end = self._log.queue_offset_behind(*queue, kept_end)
        if queue_offset > end:
            self._statistics.set_back_offset_count += 1
            raise queue_cut(*queue, queue_offset, end, self.current)
