"""Epochs of the log: whether an earlier position still means the same messages.

Two events change the meaning of positions: a lost end of the log, and a topic created anew.

Under asynchronous flush a power loss takes the end of the log, and the next messages get the queue
offsets of the lost ones. A consumer that had read beyond the new end, and comes back after these
messages, would skip them. Likewise a consumer at offset 100 of a topic that was deleted and created
anew, and has 200 messages by now, would skip 100 of them. So every opening of the store and every
deletion of topics begins an epoch; positions carry the epoch in which they were learnt, and the
broker remembers where the log ended when each epoch began::

    epoch a   |-----------------------------------|        a position p of epoch a
    epoch b   |------------------------|                   begins here: p lies beyond, is refused
    epoch c   |------------------------------------------- p would lie within, is refused too

A position keeps its meaning up to the smallest end at which any later epoch began. Messages of a
topic created anew lie behind the end at which the epoch of the deletion began, so that in this
topic every position of an earlier epoch is refused except 0; in all other topics positions stay
valid.

An orderly stop begins an epoch, too, which no client learns: if another program (RocketMQ, on the
same store) deletes topics and creates them anew before the next start, their messages lie behind
it.

``config/logEpochs.json``, which RocketMQ skips: number and begin of each epoch, oldest first::

    {"version": 1, "epochs": [[5203867203857265291, 0], [770203467234586234, 123904]]}

The number of an epoch is durable, also on replicas, before any client learns of it: otherwise a
broker that is killed, or taken over, would tell all its clients that their queues were cut. So a
deletion reserves the number before it deletes anything, with a begin that limits no position. Where
it began is saved before a topic of the same name is created. The epoch of a new primary is durable
on its own disk only; until all brokers in sync have copied it, clients get 0, an unknown
epoch. Meanwhile they get confirmed messages only, whose positions keep their meaning.

A primary whose lease is over may not know the epochs of its successors, so it judges no position by
an epoch that it does not know: after a freeze it would set readers back to the begin of queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ariane_broker.errors.public_errors import queue_cut
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_storage.store import Store

FILE_NAME: Final = "logEpochs.json"

EPOCHS_MAX: Final = 4096
"""Older epochs are forgotten. A position of an unknown epoch is refused."""

_VERSION: Final = 1
_NUMBER_MAX: Final = (1 << 63) - 1
_NOT_BEGUN: Final = (1 << 63) - 1
"""The begin of an epoch that is reserved: behind every position."""


class LogEpochs:
    """The epochs of one store; the last is the present one."""

    def __init__(
        self,
        store: Store,
        statistics: BrokerStatistics,
        *,
        draw: Callable[[int], int],
        check_all_known: Callable[[], None] = lambda: None,
        is_shared: Callable[[], bool] = lambda: True,
    ) -> None:
        """``draw`` returns a random number from 0 up to its argument, exclusive.

        Epochs are drawn, not counted: a store that is restored from a backup must not use a number
        again. ``check_all_known`` raises a ServiceError if another broker may have begun an epoch
        of this log. ``is_shared`` tells whether all brokers in sync have the file as it was loaded.
        """
        self.current = 0
        """The number of the present epoch; 0 before it has begun."""
        self._reserved = 0
        self._store = store
        self._statistics = statistics
        self._draw = draw
        self._check_all_known = check_all_known
        self._is_shared = is_shared
        self._was_shared = False
        self._epochs: list[tuple[int, int]] = []
        self._kept_ends: dict[int, int] = {}

    @property
    def announced(self) -> int:
        """The epoch in answers to clients: 0 while replicas may lack the present one."""
        self._was_shared = self._was_shared or self._is_shared()
        return self.current if self._was_shared else 0

    def load(self, document: Mapping[str, Any]) -> None:
        """Load the content of a file.

        Raises:
            KeyError, TypeError, ValueError: The file has another shape.
        """
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']} is not known here")
        self._epochs = [(int(number), int(begin)) for number, begin in document["epochs"]]

    def reserve(self) -> None:
        """Draw the number of the next epoch; it is in ``document`` from now on."""
        self._reserved = 1 + self._draw(_NUMBER_MAX)

    def begin(self) -> None:
        """Begin another epoch at the present end of the log: the reserved one, if there is one."""
        self.current = self._reserved or 1 + self._draw(_NUMBER_MAX)
        self._reserved = 0
        self._epochs = [
            *self._epochs[1 - EPOCHS_MAX :],
            (self.current, int(self._store.max_offset)),
        ]
        self._kept_ends = {}
        kept_end = self._epochs[-1][1]
        for number, begin in reversed(self._epochs[:-1]):
            self._kept_ends[number] = kept_end
            kept_end = min(kept_end, begin)

    def document(self) -> dict[str, Any]:
        """The content of the file."""
        epochs = [list(epoch) for epoch in self._epochs]
        if self._reserved:
            epochs.append([self._reserved, _NOT_BEGUN])
        return {"version": _VERSION, "epochs": epochs}

    def check(self, queue: QueueKey, queue_offset: int, log_epoch: int) -> None:
        """Refuse a position that has lost its meaning.

        Args:
            queue: The queue.
            queue_offset: The position.
            log_epoch: The epoch in which it was read; 0: no check.

        Raises:
            ServiceError: QUEUE_CUT; BROKER_NOT_PRIMARY for an epoch that may be of a later primary.
        """
        if log_epoch in {0, self.current}:
            return
        if log_epoch not in self._kept_ends:
            self._check_all_known()
        # An unknown epoch may be of another log, where nothing is the same.
        kept_end = self._kept_ends.get(log_epoch, 0)
        end = self._store.queue_offset_behind(*queue, kept_end)
        if queue_offset > end:
            self._statistics.set_back_offset_count += 1
            raise queue_cut(*queue, queue_offset, end, self.announced)
