"""Calls to the brokers of one name: the state of their replica set, and changes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ariane.replication.v1 import replica_set_service_pb2 as set_pb
from ariane_admin.asking.answers import SILENT
from ariane_admin.asking.cluster_doors import ClusterDoors, answer_from, answer_of
from ariane_sdk.errors import CallError

if TYPE_CHECKING:
    from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceAsyncStub

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Member:
    """A broker of a set."""

    address: str
    """Its address."""
    state: set_pb.GetReplicaSetResponse | None
    """Its state of the set; None without an answer."""
    error: CallError | None = None
    """Why there is no answer; None with an answer."""


async def members_of(doors: ClusterDoors, name: str) -> list[Member]:
    """The brokers of a name that name servers or other brokers know, each with its state.

    Raises:
        CallError: No name server knows the name, or its brokers have no replicas.
    """
    asked: dict[str, Member] = {}
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
            asked[address] = Member(address, None, error)
            continue
        asked[address] = Member(address, state)
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


def answering(members: Sequence[Member]) -> list[tuple[Member, set_pb.GetReplicaSetResponse]]:
    """The members that answer, each with its state; at least one.

    Raises:
        CallError: None answers.
    """
    states = [(member, member.state) for member in members if member.state is not None]
    if not states:
        raise next(member.error for member in members if member.error is not None)
    return states


def primary_of(members: Sequence[Member], name: str) -> Member:
    """The member that is primary now.

    Raises:
        CallError: No member is primary, or none answers.
    """
    for member, state in answering(members):
        if state.has_lease:
            return member
    raise CallError(
        f"broker {name} has no primary now; ariane broker ha status shows why",
        reason="BROKER_NOT_PRIMARY",
    )


async def order(
    doors: ClusterDoors,
    member: Member,
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
