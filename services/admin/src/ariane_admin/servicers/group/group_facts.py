"""The facts of a consumer group, gathered from brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1.lag_service_pb2 import ReceivingCounts
from ariane.broker.v1 import group_service_pb2 as broker_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane_admin.asking.answers import Answers
from ariane_admin.times import timestamp_of
from ariane_sdk import ClusterClient, LiveBroker, MemberKind, QueueLag, StreamQuery

TOPICS_MAX: Final = 100

_KINDS: Final[Mapping[MemberKind, group_pb.GroupKind.ValueType]] = {
    "push": group_pb.GROUP_KIND_PUSH,
    "pull": group_pb.GROUP_KIND_PULL,
    "receive": group_pb.GROUP_KIND_RECEIVE,
    "broadcast": group_pb.GROUP_KIND_BROADCAST,
}


async def facts_of(
    client: ClusterClient, answers: Answers, group: str
) -> tuple[Mapping[str, list[QueueLag]], Mapping[str, Mapping[str, MemberKind]]]:
    """Backlogs, and live members by client id, by group."""

    async def at(
        broker: LiveBroker,
    ) -> tuple[list[QueueLag], Mapping[str, dict[str, MemberKind]]]:
        only = [broker.broker_name]
        lags = await client.consumer_lag(group, broker_names=only)
        if not group:
            return lags, await client.members_of_groups(broker_names=only)
        known = await client.list_members(group, broker_names=only)
        return lags, {group: {member.client_id: member.kind for member in known}}

    lags: dict[str, list[QueueLag]] = defaultdict(list)
    members: dict[str, dict[str, MemberKind]] = defaultdict(dict)
    for found, kinds_by_group in await answers.ask(at):
        for lag in found:
            lags[lag.group].append(lag)
        for name, kinds in kinds_by_group.items():
            # A member is attached to each broker of its topics.
            members[name] |= kinds
    return lags, members


def placement_of(broker: LiveBroker, group: broker_pb.ConsumerGroup) -> group_pb.GroupPlacement:
    """A group's settings on one broker."""
    return group_pb.GroupPlacement(
        cluster_name=broker.cluster_name, broker_name=broker.broker_name, group=group
    )


def cluster_group(
    name: str,
    placements: Sequence[group_pb.GroupPlacement],
    lags: Sequence[QueueLag],
    members: Mapping[str, MemberKind],
    *,
    topics_max: int | None = TOPICS_MAX,
) -> group_pb.ClusterGroup:
    """A group as a message of the contract.

    Args:
        name: Its name.
        placements: Its settings on brokers.
        lags: Its backlogs.
        members: Its live members by client id.
        topics_max: The most topics to name; None for all.
    """
    ordered = sorted(placements, key=lambda each: (each.cluster_name, each.broker_name))
    oldest = min(
        (lag.oldest_store_time for lag in lags if lag.oldest_store_time is not None), default=None
    )
    queries = [lag.stream_query for lag in lags if lag.stream_query is not None]
    kinds = {_KINDS[kind] for kind in members.values()}
    if queries:
        kinds.add(group_pb.GROUP_KIND_STREAM_QUERY)
    return group_pb.ClusterGroup(
        consumer_group=name,
        placements=ordered,
        uneven=len({_settings(each.group) for each in ordered}) > 1,
        member_count=len(members),
        lag_message_count=sum(lag.message_count for lag in lags),
        topics=sorted({lag.message_queue.topic for lag in lags})[:topics_max],
        oldest_store_time=timestamp_of(oldest),
        receiving=_receiving(lags),
        expired_count=sum(lag.expired_count for lag in lags),
        stream_query=_newest(queries),
        kinds=sorted(kinds),
    )


def _newest(queries: Sequence[StreamQuery]) -> offset_pb.StreamQuery | None:
    """The query that was heard of last."""
    if not queries:
        return None
    newest = max(queries, key=lambda query: query.last_store_time)
    return offset_pb.StreamQuery(
        engine=newest.engine,
        address=newest.address,
        last_store_time=timestamp_of(newest.last_store_time),
    )


def _receiving(lags: Sequence[QueueLag]) -> ReceivingCounts | None:
    """The counts of a backlog by state; None if no member receives."""
    received = [lag for lag in lags if lag.receiving]
    if not received:
        return None
    return ReceivingCounts(
        in_flight_count=sum(lag.in_flight_count for lag in received),
        delayed_count=sum(lag.delayed_count for lag in received),
        ready_count=sum(lag.ready_count or 0 for lag in received),
    )


def _settings(group: broker_pb.ConsumerGroup) -> bytes:
    """All settings of a group, in a form to compare."""
    settings = broker_pb.ConsumerGroup()
    settings.CopyFrom(group)
    settings.ClearField("version")
    return settings.SerializeToString(deterministic=True)
