"""Texts about a consumer group, for the terminal and the console."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.broker.v1.client_service_pb2 import Membership
from ariane_admin.times import moment_text
from ariane_record.names import retry_topic

_GROUP_KINDS: Final = {
    group_pb.GROUP_KIND_PUSH: "push",
    group_pb.GROUP_KIND_PULL: "pull",
    group_pb.GROUP_KIND_RECEIVE: "receive",
    group_pb.GROUP_KIND_BROADCAST: "broadcast",
}

_WITH_RETRY_TOPIC: Final = frozenset({group_pb.GROUP_KIND_PUSH, group_pb.GROUP_KIND_RECEIVE})


def kind_texts(group: group_pb.ClusterGroup) -> list[str]:
    """How a group consumes: ``push``, ``Spark query`` and so on; empty while nobody consumes."""
    engine = group.stream_query.engine.partition(" ")[0]
    return [_GROUP_KINDS.get(kind, f"{engine} query") for kind in group.kinds]


def gets_returned(group: group_pb.ClusterGroup) -> bool:
    """Whether a group gets what is sent back to it, as far as is known: who polls does not."""
    return not group.kinds or not _WITH_RETRY_TOPIC.isdisjoint(group.kinds)


def query_text(group: group_pb.ClusterGroup) -> str | None:
    """The stream query of a group: engine, address, and when it was heard of; None without one."""
    if not group.HasField("stream_query"):
        return None
    query = group.stream_query
    moment = moment_text(query, "last_store_time")
    return f"{query.engine} at {query.address}, last heard of {moment}"


def paused_on(group: group_pb.ClusterGroup) -> Sequence[str]:
    """The brokers on which an operator has paused a group."""
    return sorted(each.broker_name for each in group.placements if not each.group.consume_enabled)


def pause_warning(group: str, brokers: Sequence[str]) -> str:
    """What a command says of a group that is paused on some brokers."""
    return (
        f"group {group} is paused on {', '.join(brokers)}: its members get no messages from there"
        f" until ariane group resume {shlex.quote(group)}"
    )


def subscriptions_of(membership: Membership) -> Mapping[str, str]:
    """The filter of each subscribed topic, without the retry topic that all members have."""
    returning = retry_topic(membership.consumer_group)
    return {
        each.topic: each.filter.text for each in membership.subscriptions if each.topic != returning
    }
