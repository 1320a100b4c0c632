"""What the doctor says of backlogs."""

import pytest

from ariane_admin.doctor.cluster_facts import ClusterFacts
from ariane_admin.doctor.cluster_rules import hot_queues
from ariane_sdk import MessageQueue, QueueLag


def lags(*counts, topic="orders", group="billing", **fields):
    return [
        QueueLag(group, MessageQueue(topic, "broker-a", place), 0, count, count, None, **fields)
        for place, count in enumerate(counts)
    ]


def found(*backlogs):
    return list(hot_queues(ClusterFacts([], lags=[lag for some in backlogs for lag in some])))


def test_a_queue_with_most_of_a_backlog_is_told():
    even = lags(20_000, 20_000, 20_000, 20_000, group="even")
    (finding,) = found(even, lags(10, 90_000, 0, 5_000))
    assert finding.subject == "group billing"
    assert "one of 4 queues of topic orders, broker-a:1, has 95%" in finding.finding
    assert "95,010 messages" in finding.finding
    assert "ariane group running billing" in finding.advice


@pytest.mark.parametrize(
    "backlog",
    [
        lags(9_999, 0, 0, 0),
        lags(90_000, 0, 0),
        lags(70_000, 10_000, 10_000, 10_000),
        lags(90_000, 0, 0, 0, topic="%RETRY%billing"),
        lags(90_000, 0, 0, 0, unread=True),
        [],
    ],
)
def test_small_even_and_otherwise_known_backlogs_are_no_finding(backlog):
    assert found(backlog) == []
