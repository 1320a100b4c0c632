"""``ReplicaSetService``: brokers with replicas; primary, followers, and changes of them."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.admin.v1 import replica_set_service_pb2 as admin_pb
from ariane.admin.v1.replica_set_service_pb2_grpc import ReplicaSetServiceServicer
from ariane.replication.v1 import replica_set_service_pb2 as set_pb
from ariane_admin.asking.replica_sets import (
    Member,
    answering,
    members_of,
    order,
    primary_of,
)
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_servicekit import field_invalid

_Context = aio.ServicerContext[Any, Any]

CALL_BESIDE_S: Final = 5.0
"""Seconds that a call may take beyond the grace that it asks for."""

GRACE_S: Final = 5.0
GRACE_S_MAX: Final = 20.0


class ReplicaSetServicer(ReplicaSetServiceServicer):
    """Asks the brokers of a name, and lets one of them change the set."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def before(self, method: str, request: Any) -> admin_pb.GetReplicaSetResponse:
        """The set as it is before it is changed."""
        return self._response(await members_of(self._doors, request.broker_name))

    async def GetReplicaSet(
        self, request: admin_pb.GetReplicaSetRequest, context: _Context
    ) -> admin_pb.GetReplicaSetResponse:
        """Read the states of the brokers of a set."""
        return self._response(await members_of(self._doors, request.broker_name))

    async def TransferPrimary(
        self, request: admin_pb.TransferPrimaryRequest, context: _Context
    ) -> admin_pb.TransferPrimaryResponse:
        """Hand over the role of the primary."""
        name = request.broker_name
        grace_s = GRACE_S
        if request.HasField("grace"):
            grace_s = request.grace.ToMilliseconds() / 1000
        if not 0 < grace_s <= GRACE_S_MAX:
            raise field_invalid("grace", f"must be more than 0 and at most {GRACE_S_MAX:g} s")
        grace = Duration()
        grace.FromMilliseconds(round(grace_s * 1000))
        asked = set_pb.TransferPrimaryRequest(
            target_broker_id=request.target_broker_id, grace=grace
        )
        primary = primary_of(await members_of(self._doors, name), name)
        answer = await order(
            self._doors,
            primary,
            name,
            lambda stub: stub.TransferPrimary(asked, timeout=grace_s + CALL_BESIDE_S),
        )
        return admin_pb.TransferPrimaryResponse(replica_set=answer.replica_set)

    async def ElectPrimary(
        self, request: admin_pb.ElectPrimaryRequest, context: _Context
    ) -> admin_pb.ElectPrimaryResponse:
        """Order an election."""
        name = request.broker_name
        asked = set_pb.ElectPrimaryRequest(broker_id=request.broker_id, unclean=request.unclean)
        states = answering(await members_of(self._doors, name))
        # A primary that lives refuses, and would soon end the order if another one took it.
        living = next((member for member, state in states if state.has_lease), states[0][0])
        answer = await order(
            self._doors,
            living,
            name,
            lambda stub: stub.ElectPrimary(asked, timeout=CALL_BESIDE_S),
        )
        return admin_pb.ElectPrimaryResponse(replica_set=answer.replica_set)

    async def RemoveReplica(
        self, request: admin_pb.RemoveReplicaRequest, context: _Context
    ) -> admin_pb.RemoveReplicaResponse:
        """Remove a replica for good."""
        name = request.broker_name
        asked = set_pb.RemoveReplicaRequest(broker_id=request.broker_id)
        primary = primary_of(await members_of(self._doors, name), name)
        answer = await order(
            self._doors,
            primary,
            name,
            lambda stub: stub.RemoveReplica(asked, timeout=CALL_BESIDE_S),
        )
        return admin_pb.RemoveReplicaResponse(replica_set=answer.replica_set)

    def _response(self, members: list[Member]) -> admin_pb.GetReplicaSetResponse:
        answer = admin_pb.GetReplicaSetResponse()
        for member in members:
            entry = answer.members.add(address=member.address)
            if member.state is not None:
                entry.state.CopyFrom(member.state)
            if member.error is not None:
                entry.error.CopyFrom(self._cluster.translator.status(member.error))
        return answer
