"""Topics that have as much stored as they may.

What they have is estimated now and then: a topic may go beyond its quota by what is sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from ariane_broker.topics.topic_table import TopicTable
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.gate.charging import refused_by_quota
from ariane_servicekit.security.limits.meter import STORED, TOPIC
from ariane_servicekit.security.limits.quota_uses import QuotaAmount
from ariane_servicekit.security.limits.quotas import Quotas

LOOK_S: Final = 10.0
"""Seconds between two estimates."""


class StoredQuota:
    """Refuses messages to topics that are full."""

    def __init__(self, topics: TopicTable, stored_bytes: Callable[[str], Awaitable[int]]) -> None:
        """``stored_bytes`` estimates what the broker keeps of a topic."""
        self.quotas: Quotas | None = None
        """Of the process; None without any."""
        self._topics = topics
        self._stored_bytes = stored_bytes
        self._full: dict[str, int] = {}
        self._amounts: list[QuotaAmount] = []

    def check(self, topics: Iterable[str]) -> None:
        """Refuse topics that are full.

        Raises:
            ServiceError: QUOTA_EXCEEDED.
        """
        if not self._full:
            return
        for topic in topics:
            if topic in self._full:
                raise refused_by_quota(STORED, TOPIC, topic, self._full[topic], LOOK_S)

    async def turn(self) -> None:
        """Estimate what the topics have that have a quota."""
        amounts: list[QuotaAmount] = []
        quotas = self.quotas
        if quotas is not None and quotas.has(STORED):
            for config in list(self._topics.all()):
                limit = None if config.system else quotas.limit(STORED, TOPIC, config.topic)
                if limit is not None:
                    stored = await self._bytes_of(config.topic)
                    amounts.append(QuotaAmount(STORED, TOPIC, config.topic, limit, stored))
        self._amounts = amounts
        self._full = {each.name: each.limit for each in amounts if each.used >= each.limit}

    def amounts(self) -> Iterator[QuotaAmount]:
        """What is kept of topics that have a quota of it, as it was estimated last."""
        return iter(self._amounts)

    async def _bytes_of(self, topic: str) -> int:
        try:
            return await self._stored_bytes(topic)
        except ServiceError:
            return 0  # It has been deleted meanwhile, or nobody may read it now.
