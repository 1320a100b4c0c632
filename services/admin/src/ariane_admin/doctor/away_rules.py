"""Findings about brokers that have left and may come back."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC
from typing import Final

from ariane_admin.counted import counted
from ariane_admin.doctor.cluster_facts import ClusterFacts
from ariane_admin.doctor.findings import Finding, Severity


def brokers_away(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers that routes name as away, and that no name server has registered."""
    alive = {one.identity.broker_name for each in facts.name_servers for one in each.brokers}
    away = {one.broker_name: one for each in facts.name_servers for one in each.away}
    for name in sorted(away.keys() - alive):
        left = away[name].leave_time.ToDatetime(UTC).isoformat(timespec="seconds")
        yield Finding(
            Severity.WARNING,
            f"broker {name}",
            f"has left undrained at {left}, with {counted(away[name].topic_count, 'topic')}: groups"
            " that have no offset elsewhere wait a minute for it, then begin at the first message",
            f"start it; if it is gone for good: ariane broker forget {shlex.quote(name)}",
        )


RULES: Final[Sequence[Callable[[ClusterFacts], Iterable[Finding]]]] = (brokers_away,)
