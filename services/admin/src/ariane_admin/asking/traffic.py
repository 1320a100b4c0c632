"""How fast topics are filled and groups consume, from two looks at their offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ariane.broker.v1.topic_service_pb2 import ListTopicsRequest, Topic
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.broker_readings import queue_bounds
from ariane_admin.asking.cluster_doors import ClusterDoors, all_pages
from ariane_sdk import LiveBroker, MessageQueue, QueueLag
from ariane_sdk.errors import TopicNotFound

TOPICS_MAX: Final = 200
"""How many topics of a broker are looked at: those in which messages were stored last."""


@dataclass(frozen=True, slots=True)
class Look:
    """Where topics and groups are at a moment."""

    at_s: float
    """The moment, by the monotonic clock."""
    ends: Mapping[MessageQueue, int] = field(default_factory=dict)
    """Behind the newest message, by queue."""
    offsets: Mapping[tuple[str, MessageQueue], int] = field(default_factory=dict)
    """Next to consume, by group and queue."""
    backlogs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Messages not consumed yet, by group and topic."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What happened between two looks."""

    seconds: float
    """How long that was."""
    sent: Mapping[str, float]
    """Messages stored per second, by topic; 0 included."""
    consumed: Mapping[tuple[str, str], float]
    """Messages consumed per second, by group and topic; 0 included."""


def traffic_between(before: Look, after: Look) -> Traffic:
    """The rates between two looks.

    Queues and groups that only one of them has are left out: nobody knows since when. An offset
    that went back, by a reset or a deleted topic, counts as no progress.
    """
    seconds = after.at_s - before.at_s
    sent: dict[str, float] = defaultdict(float)
    for queue in after.ends.keys() & before.ends.keys():
        sent[queue.topic] += max(0, after.ends[queue] - before.ends[queue]) / seconds
    consumed: dict[tuple[str, str], float] = defaultdict(float)
    for place in after.offsets.keys() & before.offsets.keys():
        group, queue = place
        done = max(0, after.offsets[place] - before.offsets[place])
        consumed[group, queue.topic] += done / seconds
    return Traffic(seconds, dict(sent), dict(consumed))


async def look_at(doors: ClusterDoors, answers: Answers, at_s: float) -> Look:
    """Look at all topics and groups of the brokers that answer.

    Raises:
        CallError: A broker refused, or none answers.
    """

    async def at(broker: LiveBroker) -> tuple[dict[MessageQueue, int], list[QueueLag]]:
        only = [broker.broker_name]
        return await _ends(doors, broker), await doors.client.consumer_lag(broker_names=only)

    ends: dict[MessageQueue, int] = {}
    offsets: dict[tuple[str, MessageQueue], int] = {}
    backlogs: dict[tuple[str, str], int] = defaultdict(int)
    for found, lags in await answers.ask(at):
        ends |= found
        for lag in lags:
            offsets[lag.group, lag.message_queue] = lag.consumer_offset
            backlogs[lag.group, lag.message_queue.topic] += lag.message_count
    return Look(at_s, ends, offsets, dict(backlogs))


async def _ends(doors: ClusterDoors, broker: LiveBroker) -> dict[MessageQueue, int]:
    topics: list[Topic] = await all_pages(
        broker,
        doors.topics(broker.address).ListTopics,
        ListTopicsRequest(),
        lambda page: page.topics,
    )
    topics.sort(key=lambda topic: topic.last_store_time.ToMilliseconds(), reverse=True)
    ends = {}
    for topic in topics[:TOPICS_MAX]:
        for queue_id, end in (await _queue_ends(doors, broker, topic.topic)).items():
            ends[MessageQueue(topic.topic, broker.broker_name, queue_id)] = end
    return ends


async def _queue_ends(doors: ClusterDoors, broker: LiveBroker, topic: str) -> dict[int, int]:
    """The ends of a topic's queues; none if it was deleted a moment ago."""
    try:
        bounds = await queue_bounds(doors, broker, topic)
    except TopicNotFound:
        return {}
    return {each.queue_id: each.max_queue_offset for each in bounds}
