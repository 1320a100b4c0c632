"""Brokers that are away for a moment, as for a restart: a stream waits for their queues."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ariane_sdk import MessageQueue
from ariane_sdk.errors import ArianeError
from ariane_spark.positions.queue_catalog import QueueCatalog

RETURN_S_MAX: Final = 120.0
"""How long the queues of a broker that left may be missing before that ends a query."""

_log: Final = logging.getLogger(__name__)


class LeftBrokers:
    """The brokers that a stream misses, and since when."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since_s: dict[str, float] = {}

    def may_return(self, queue: MessageQueue, catalog: QueueCatalog) -> bool:
        """Whether a queue is missing because its broker left lately, and may soon be back.

        Args:
            queue: The queue.
            catalog: Knows who left.
        """
        name = queue.broker_name
        try:
            if name not in catalog.away_brokers(queue.topic):
                return False
        except ArianeError:
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

    def are_there(self, queues: Iterable[MessageQueue]) -> None:
        """Forget that brokers left which have queues now."""
        if self._since_s:
            for queue in queues:
                self._since_s.pop(queue.broker_name, None)
