"""Findings about what groups have not consumed."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ariane_admin.counted import counted
from ariane_admin.doctor.cluster_facts import ClusterFacts
from ariane_admin.doctor.findings import Finding, Severity
from ariane_record.names import is_system_topic
from ariane_sdk import QueueLag

HOT_BACKLOG_MIN: Final = 10_000
"""Smaller backlogs are not worth a look."""

HOT_QUEUES_MIN: Final = 4
"""With fewer queues, it is no finding that one has most of the backlog."""

HOT_SHARE: Final = 0.8
"""The part of a topic's backlog that makes its queue a hot one."""


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


RULES: Final[Sequence[Callable[[ClusterFacts], Iterable[Finding]]]] = (hot_queues,)
