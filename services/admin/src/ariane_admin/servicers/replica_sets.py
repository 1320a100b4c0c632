"""``ReplicaSetService``: brokers with replicas; primary, followers, and changes of them."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.admin.v1 import replica_set_service_pb2 as admin_pb
from ariane.admin.v1.replica_set_service_pb2_grpc import ReplicaSetServiceServicer
from ariane.replication.v1 import replica_set_service_pb2 as set_pb
from ariane_admin.asking.answers import SILENT
from ariane_admin.asking.cluster_doors import ClusterDoors, answer_from, answer_of
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_sdk.errors import CallError
from ariane_servicekit import field_invalid

if TYPE_CHECKING:
    from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceAsyncStub

_Context = aio.ServicerContext[Any, Any]
_Answer = TypeVar("_Answer")

CALL_BESIDE_S: Final = 5.0
"""Seconds that a call may take beyond the grace that it asks for."""

GRACE_S: Final = 5.0
GRACE_S_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class _Member:
    """A broker of a set."""

    address: str
    """Its address."""
    state: set_pb.GetReplicaSetResponse | None
    """Its state of the set; None without an answer."""
    error: CallError | None = None
    """Why there is no answer; None with an answer."""


class ReplicaSetServicer(ReplicaSetServiceServicer):
    """Asks the brokers of a name, and lets one of them change the set."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def before(self, method: str, request: Any) -> admin_pb.GetReplicaSetResponse:
        """The set as it is before it is changed."""
        return self._response(await _members_of(self._doors, request.broker_name))

    async def GetReplicaSet(
        self, request: admin_pb.GetReplicaSetRequest, context: _Context
    ) -> admin_pb.GetReplicaSetResponse:
        """Read the states of the brokers of a set."""
        return self._response(await _members_of(self._doors, request.broker_name))

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
        primary = _primary_of(await _members_of(self._doors, name), name)
        answer = await _order(
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
        states = _answering(await _members_of(self._doors, name))
        # A primary that lives refuses, and would soon end the order if another one took it.
        living = next((member for member, state in states if state.has_lease), states[0][0])
        answer = await _order(
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
        primary = _primary_of(await _members_of(self._doors, name), name)
        answer = await _order(
            self._doors,
            primary,
            name,
            lambda stub: stub.RemoveReplica(asked, timeout=CALL_BESIDE_S),
        )
        return admin_pb.RemoveReplicaResponse(replica_set=answer.replica_set)

    def _response(self, members: list[_Member]) -> admin_pb.GetReplicaSetResponse:
        answer = admin_pb.GetReplicaSetResponse()
        for member in members:
            entry = answer.members.add(address=member.address)
            if member.state is not None:
                entry.state.CopyFrom(member.state)
            if member.error is not None:
                entry.error.CopyFrom(self._cluster.translator.status(member.error))
        return answer


async def _members_of(doors: ClusterDoors, name: str) -> list[_Member]:
    """The brokers of a name that name servers or other brokers know, each with its state.

    Raises:
        CallError: No name server knows the name, or its brokers have no replicas.
    """
    asked: dict[str, _Member] = {}
    waiting = list(await _known_addresses(doors, name))
    refusal: CallError | None = None
    while waiting:
        address = waiting.pop(0)
        if address in asked:
            continue
        try:
            state = await answer_from(
                f"broker {name} at {address}",
                doors.replica_sets(address).GetReplicaSet,
                set_pb.GetReplicaSetRequest(),
            )
        except CallError as error:
            if not isinstance(error, SILENT):
                refusal = error
            asked[address] = _Member(address, None, error)
            continue
        asked[address] = _Member(address, state)
        waiting += state.replica_set.addresses.values()
    if refusal is not None and all(one.state is None for one in asked.values()):
        if refusal.reason == "FEATURE_NOT_AVAILABLE":
            raise CallError(f"broker {name} has no replicas", reason=refusal.reason) from refusal
        raise refusal
    return [asked[address] for address in sorted(asked)]


async def _known_addresses(doors: ClusterDoors, name: str) -> Sequence[str]:
    """Addresses of a broker's name, from the first name server that knows it."""
    failure: CallError | None = None
    for name_server in doors.name_servers:
        try:
            brokers = await doors.known_to(name_server)
        except CallError as error:
            failure = error
            continue
        found = [one for one in brokers if one.identity.broker_name == name]
        if found:
            replicas = [address for one in found for address in one.replica_addresses.values()]
            return [*(one.identity.address for one in found), *replicas]
    if failure is not None:
        raise failure
    raise CallError(
        f"no broker {name} is registered; ariane broker list shows all",
        reason="BROKER_NOT_REGISTERED",
        metadata={"broker_name": name},
    )


def _answering(members: Sequence[_Member]) -> list[tuple[_Member, set_pb.GetReplicaSetResponse]]:
    """The members that answer, each with its state; at least one.

    Raises:
        CallError: None answers.
    """
    states = [(member, member.state) for member in members if member.state is not None]
    if not states:
        raise next(member.error for member in members if member.error is not None)
    return states


def _primary_of(members: Sequence[_Member], name: str) -> _Member:
    """The member that is primary now.

    Raises:
        CallError: No member is primary, or none answers.
    """
    for member, state in _answering(members):
        if state.has_lease:
            return member
    raise CallError(
        f"broker {name} has no primary now; ariane broker ha status shows why",
        reason="BROKER_NOT_PRIMARY",
    )


async def _order(
    doors: ClusterDoors,
    member: _Member,
    name: str,
    call: Callable[[ReplicaSetServiceAsyncStub], Awaitable[_Answer]],
) -> _Answer:
    """Let a member change the set.

    Raises:
        CallError: The error of the broker.
    """
    return await answer_of(
        call(doors.replica_sets(member.address)), f"broker {name} at {member.address}"
    )
