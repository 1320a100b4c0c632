"""How a consumer group consumes, as text for the terminal and the console."""

from __future__ import annotations

from typing import Final

from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane_admin.times import moment_text

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
