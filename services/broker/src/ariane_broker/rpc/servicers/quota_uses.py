"""What is used of the quotas of a broker, for operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain, islice
from typing import Final, cast

from ariane.common.v1.quota_pb2 import Quota, QuotaFigure, QuotaSubject, QuotaUse
from ariane_broker.append.stored_quota import StoredQuota
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.rpc.translation.wire_time import span_of
from ariane_broker.topics.topic_table import TopicTable
from ariane_servicekit import in_turns
from ariane_servicekit.rpc.calls import current_call
from ariane_servicekit.security.gate.charging import name_room
from ariane_servicekit.security.limits.meter import GROUPS, TOPICS
from ariane_servicekit.security.limits.quota_uses import QuotaAmount, QuotaUses
from ariane_servicekit.security.limits.quota_uses import QuotaUse as Kept

USES_MAX: Final = 100
"""The most uses in one answer."""

_Key = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class BrokerQuotas:
    """Counts what its topics, groups and callers use."""

    topics: TopicTable
    """Its topics."""
    groups: ConsumerGroups
    """Its groups."""
    stored: StoredQuota
    """What topics store."""

    async def uses(self) -> list[QuotaUse]:
        """Who was kept back within the last minute, then who uses the largest part; at most 100."""
        call = current_call()
        if call is None or call.gate is None:
            return []
        quotas = call.gate.quotas
        parts = (quotas.amounts(), call.gate.connections.amounts(), self.stored.amounts())
        counted = await in_turns(chain(*parts, await self._named()))
        most = nlargest(USES_MAX, counted, key=lambda each: each.part)
        amounts = {each[:3]: each for each in most}
        uses: dict[_Key, QuotaUse] = {}
        for kept, age_s in islice(quotas.uses.lately(), USES_MAX):
            key = (kept.figure, kept.subject, kept.name)
            uses[key] = _use(quotas.uses, amounts.pop(key, QuotaAmount(*key, kept.limit, 0)), age_s)
        for amount in islice(amounts.values(), USES_MAX - len(uses)):
            uses[amount[:3]] = _use(quotas.uses, amount)
        return list(uses.values())

    async def _named(self) -> Iterator[QuotaAmount]:
        """Topics and groups by the beginnings that have quotas."""
        topics, groups = name_room(TOPICS), name_room(GROUPS)
        if topics.has_limits:
            clients = (each for each in self.topics.walk() if not each.system)
            await in_turns(map(topics.count, (each.topic for each in clients)))
        if groups.has_limits:
            names = (each.consumer_group for each in self.groups.walk())
            await in_turns(map(groups.count, names))
        return chain(topics.amounts(), groups.amounts())


def _use(uses: QuotaUses, amount: QuotaAmount, age_s: float | None = None) -> QuotaUse:
    kept = uses.find(*amount[:3]) or Kept(*amount[:4])
    return QuotaUse(
        quota=Quota(
            figure=cast("QuotaFigure.ValueType", amount.figure),
            subject=cast("QuotaSubject.ValueType", amount.subject),
            name=amount.name,
            limit=amount.limit,
        ),
        refused_count=kept.refused_count,
        waited_duration=span_of(kept.waited_s),
        age_duration=None if age_s is None else span_of(age_s),
        used=round(amount.used),
        refusing=uses.is_late(kept.refused_s),
    )
