"""Findings about the whole cluster: brokers that have left, quotas that are used up, backlogs."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC
from typing import Final

from ariane.common.v1.quota_pb2 import QuotaUse
from ariane_admin.counted import counted
from ariane_admin.doctor.cluster_facts import ClusterFacts
from ariane_admin.doctor.findings import Finding, Severity
from ariane_record.names import is_system_topic
from ariane_sdk import QueueLag
from ariane_servicekit.security.limits.meter import FIGURE_WORDS, RATES, SUBJECT_WORDS

HOT_BACKLOG_MIN: Final = 10_000
"""Smaller backlogs are not worth a look."""

HOT_QUEUES_MIN: Final = 4
"""With fewer queues, it is no finding that one has most of the backlog."""

HOT_SHARE: Final = 0.8
"""The part of a topic's backlog that makes its queue a hot one."""


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
            " that have no offset elsewhere wait a minute for it, then begin at the first message;"
            " for a day at most, sends to topics that only it has wait, writes of Spark to them are"
            " refused, and they are neither deleted nor made elsewhere",
            f"start it; if it is gone for good: ariane broker forget {shlex.quote(name)}",
        )


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


def hot_queues(facts: ClusterFacts) -> Iterator[Finding]:
    """Queues that have nearly all of a backlog, while their topic has several."""
    by_topic: dict[tuple[str, str], list[QueueLag]] = defaultdict(list)
    for lag in facts.lags:
        if not is_system_topic(lag.message_queue.topic) and not lag.unread:
            by_topic[lag.group, lag.message_queue.topic].append(lag)
    for (group, topic), lags in sorted(by_topic.items()):
        total = sum(lag.message_count for lag in lags)
        hot = max(lags, key=lambda lag: lag.message_count)
        share = hot.message_count / max(1, total)
        if total < HOT_BACKLOG_MIN or len(lags) < HOT_QUEUES_MIN or share < HOT_SHARE:
            continue
        queue = hot.message_queue
        yield Finding(
            Severity.WARNING,
            f"group {group}",
            f"one of {len(lags)} queues of topic {topic}, {queue.broker_name}:{queue.queue_id}, has"
            f" {share:.0%} of what it has not consumed ({counted(total, 'message')})",
            "one message group or key may have most messages: divide it into several; or the owner"
            f" of the queue is slower than others: ariane group running {shlex.quote(group)}",
        )


RULES: Final[Sequence[Callable[[ClusterFacts], Iterable[Finding]]]] = (
    brokers_away,
    quotas_used_up,
    hot_queues,
)
