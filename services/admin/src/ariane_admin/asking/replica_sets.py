"""Replica sets, as commands ask the servicers for them."""

from __future__ import annotations

from collections.abc import Sequence

from ariane.admin.v1.replica_set_service_pb2 import GetReplicaSetRequest, ReplicaSetMember
from ariane.replication.v1.replica_set_service_pb2 import GetReplicaSetResponse
from ariane_admin.asking.changing.changes import error_of
from ariane_admin.asking.questions import Questions


async def members_of(asked: Questions, name: str) -> Sequence[ReplicaSetMember]:
    """The brokers of a name, each with its state of the set, or why it does not answer.

    Raises:
        CallError: No name server knows the name, or its brokers have no replicas.
    """
    request = GetReplicaSetRequest(broker_name=name)
    return (await asked.replica_sets.GetReplicaSet(request)).members


def states_of(members: Sequence[ReplicaSetMember]) -> list[GetReplicaSetResponse]:
    """The states of the members that answer; at least one.

    Raises:
        CallError: None answers.
    """
    states = [member.state for member in members if member.HasField("state")]
    if not states:
        raise error_of(members[0].error)
    return states
