"""What the doctor finds of users, topics and addresses that are at a quota."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ariane.common.v1.quota_pb2 import QuotaUse
from ariane_admin.counted import counted
from ariane_admin.doctor.cluster_facts import ClusterFacts
from ariane_admin.doctor.findings import Finding, Severity
from ariane_servicekit.security.limits.meter import FIGURE_WORDS, RATES, SUBJECT_WORDS


def quotas_used_up(facts: ClusterFacts) -> Iterator[Finding]:
    """Who was kept back by a quota within the last minute, at each broker."""
    for one in facts.brokers:
        for use in () if one.state is None else one.state.quota_uses:
            if use.HasField("age_duration"):
                yield _finding(one.identity.broker_name, use)


def _finding(broker_name: str, use: QuotaUse) -> Finding:
    quota = use.quota
    figure, subject = FIGURE_WORDS[quota.figure], SUBJECT_WORDS[quota.subject]
    in_time = " a second" if quota.figure in RATES else ""
    refused = use.refused_count
    return Finding(
        Severity.WARNING if refused else Severity.NOTE,
        f"{subject} {quota.name or '*'}",
        f"it is at its quota of {figure}, {quota.limit}{in_time}, at broker {broker_name}, which"
        f" has refused {counted(refused, 'time')} and held answers back for"
        f" {use.waited_duration.ToMilliseconds() / 1000:.1f} s since it began",
        f"see ariane quota show {subject} NAME; raise it by ariane quota set, or have less done",
    )


RULES: Final = (quotas_used_up,)
