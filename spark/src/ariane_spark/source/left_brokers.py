"""Brokers that are away for a moment, as for a restart: a stream waits for their queues."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final

from ariane_sdk import MessageQueue
from ariane_sdk.errors import ArianeError
from ariane_spark.positions.offsets import Bounds
from ariane_spark.positions.queue_catalog import QueueCatalog

RETURN_S_MAX: Final = 120.0
"""How long the queues of a broker that left may be missing before that ends a query."""

_log: Final = logging.getLogger(__name__)


class LeftBrokers:
    """The brokers that a stream misses, and since when."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since_s: dict[str, float] = {}
        self._closed: set[MessageQueue] = set()
        self._away: dict[str, frozenset[str] | None] = {}

    def ask_anew(self) -> None:
        """Ask who is away again the next time; until then, once for each topic."""
        self._away.clear()

    def lost(
        self,
        missing: Iterable[MessageQueue],
        done: Container[MessageQueue],
        catalog: QueueCatalog,
        *,
        run_ends: bool,
    ) -> frozenset[MessageQueue]:
        """The missing queues with which messages may be missing, and which are not waited for.

        Args:
            missing: Queues that no broker offers now.
            done: Queues that took no more messages and were read to their ends.
            catalog: Knows who left.
            run_ends: Whether the run ends at what is there now: it would lack what comes back.
        """
        return frozenset(
            queue
            for queue in missing
            if not (queue in done and self.is_out_of_service(queue, catalog))
            and (run_ends or not self._may_return(queue, catalog))
        )

    def _may_return(self, queue: MessageQueue, catalog: QueueCatalog) -> bool:
        """Whether a queue is missing because its broker left lately, and may soon be back.

        Name servers tell who left undrained; who was drained before, this has seen.

        Args:
            queue: The queue.
            catalog: Knows who left.
        """
        name = queue.broker_name
        if queue not in self._closed and name not in (self._away_of(queue.topic, catalog) or ()):
            return False
        now_s = self._monotonic()
        if name not in self._since_s:
            self._since_s[name] = now_s
            _log.warning(
                "broker %s, with queues of %s, left; the query goes on without them for up to"
                " %.0f s",
                name,
                queue.topic,
                RETURN_S_MAX,
            )
        return now_s - self._since_s[name] < RETURN_S_MAX

    def is_out_of_service(self, queue: MessageQueue, catalog: QueueCatalog) -> bool:
        """Whether a queue is missing because its broker was drained, and stopped for good.

        Args:
            queue: A queue that took no more messages.
            catalog: Knows who left undrained, and may have got some since.
        """
        away = self._away_of(queue.topic, catalog)
        return away is not None and queue.broker_name not in away

    def _away_of(self, topic: str, catalog: QueueCatalog) -> frozenset[str] | None:
        """Who left undrained; ``None`` if nobody knows.

        An idle query looks ten times a second. Name servers that know nothing of a topic, because
        it was deleted, are asked each time, and a topic has many queues.
        """
        if topic not in self._away:
            try:
                self._away[topic] = catalog.away_brokers(topic)
            except ArianeError:
                self._away[topic] = None
        return self._away[topic]

    def are_there(self, bounds: Mapping[MessageQueue, Bounds]) -> None:
        """Forget that brokers left which have queues now, and note which queues are closed."""
        for queue, kept in bounds.items():
            self._since_s.pop(queue.broker_name, None)
            if kept.is_closed:
                self._closed.add(queue)
            else:
                self._closed.discard(queue)
