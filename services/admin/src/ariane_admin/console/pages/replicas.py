"""The replicas of a broker: the primary, the progress of the others, and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.admin.v1 import replica_set_service_pb2 as set_pb
from ariane_admin.console.api import Asker
from ariane_admin.console.blocks import Block, Cell, Form, Input, Table, number, size, span, to, yes
from ariane_admin.console.changing.change import Change, Given, number_in

SWITCHOVER_S_MAX: Final = 45.0
"""Seconds that a switchover may take: members are asked first, and sends wait for the grace."""

_WITHOUT: Final = {StatusCode.UNIMPLEMENTED, StatusCode.NOT_FOUND, StatusCode.UNAVAILABLE}


async def replica_blocks(ask: Asker, name: str) -> Sequence[Block]:
    """The blocks of a broker's replicas; none for a broker without replicas."""
    try:
        answer = await ask(
            ask.api.replica_sets.GetReplicaSet, set_pb.GetReplicaSetRequest(broker_name=name)
        )
    except AioRpcError as error:
        if error.code() in _WITHOUT:
            return []
        raise
    states = [each.state for each in answer.members if each.HasField("state")]
    if not states:
        return []
    newest = max((state.replica_set for state in states), key=lambda found: found.version)
    by_id = {state.broker_id: state for state in states}
    followed = {r.broker_id: r for state in states if state.has_lease for r in state.replicas}
    rows = []
    for broker_id, address in sorted(newest.addresses.items()):
        own, seen = by_id.get(broker_id), followed.get(broker_id)
        is_primary = own is not None and own.has_lease
        trouble = "it does not answer" if own is None else own.trouble
        role = "primary" if is_primary else "replica" if own is not None else "away"
        rows.append(
            (
                number(broker_id),
                Cell(address, kind="code"),
                Cell(role, kind="bad" if own is None else "good" if is_primary else ""),
                Cell(str(own.epochs[-1].epoch) if own is not None and own.epochs else ""),
                yes(is_so=broker_id in newest.in_sync_broker_ids),
                Cell("") if seen is None else size(seen.behind_bytes),
                Cell("") if seen is None else span(seen.behind_for.ToMilliseconds() / 1000),
                Cell(trouble, kind="bad"),
            )
        )
    columns = ("Id", "Address", "Role", "Epoch", "In sync", "Behind", "For", "Trouble")
    return [Table("Replicas", columns, rows), *_forms(name, sorted(newest.addresses))]


def _forms(name: str, ids: Sequence[int]) -> list[Form]:
    named = Input("broker", value=name, kind="hidden")
    options = tuple((str(each), str(each)) for each in ids)
    whom = Input("id", "Id", str(ids[-1]), "select", options)
    return [
        Form("Hand the primary's role to a replica", "/cluster/switchover", (named, whom), "Hand"),
        Form(
            "Elect a replica if there is no primary",
            "/cluster/elect",
            (named, whom),
            "Elect",
            danger=True,
        ),
        Form(
            "Elect one even if it is not in sync: what only others hold is lost",
            "/cluster/elect-unclean",
            (named, whom),
            "Elect, and lose messages",
            danger=True,
        ),
        Form(
            "Take a replica out that will not come back",
            "/cluster/remove",
            (named, whom),
            "Take out",
            danger=True,
        ),
    ]


async def _switchover(ask: Asker, given: Given) -> str:
    request = set_pb.TransferPrimaryRequest(
        broker_name=given["broker"], target_broker_id=number_in(given, "id")
    )
    await ask(ask.api.replica_sets.TransferPrimary, request)
    return f"Broker {given['id']} takes over as primary of {given['broker']}."


async def _elect(ask: Asker, given: Given) -> str:
    return await _elected(ask, given, unclean=False)


async def _elect_unclean(ask: Asker, given: Given) -> str:
    return await _elected(ask, given, unclean=True)


async def _elected(ask: Asker, given: Given, *, unclean: bool) -> str:
    request = set_pb.ElectPrimaryRequest(
        broker_name=given["broker"],
        broker_id=number_in(given, "id"),
        unclean=unclean,
    )
    await ask(ask.api.replica_sets.ElectPrimary, request)
    return f"Broker {given['id']} is ordered to become primary of {given['broker']}."


async def _remove(ask: Asker, given: Given) -> str:
    request = set_pb.RemoveReplicaRequest(
        broker_name=given["broker"], broker_id=number_in(given, "id")
    )
    await ask(ask.api.replica_sets.RemoveReplica, request)
    return f"Broker {given['id']} is out of the set of {given['broker']}."


def _broker(given: Given) -> str:
    return to("cluster", given["broker"])


REPLICA_CHANGES: Final[Mapping[str, Change]] = {
    "/cluster/switchover": Change(
        "Make broker {id} the primary of {broker}? Sends wait meanwhile.",
        _switchover,
        _broker,
        within_s=SWITCHOVER_S_MAX,
    ),
    "/cluster/elect": Change(
        "Have broker {id} elected as primary of {broker}, which has none?",
        _elect,
        _broker,
        danger=True,
    ),
    "/cluster/elect-unclean": Change(
        "Have broker {id} elected as primary of {broker}, which has none, even if it is not in"
        " sync? Messages that only other brokers hold are lost for ever, also acknowledged ones.",
        _elect_unclean,
        _broker,
        danger=True,
    ),
    "/cluster/remove": Change(
        "Take broker {id} out of the set of {broker}? Nobody waits for it any more.",
        _remove,
        _broker,
        danger=True,
    ),
}
"""The changes of replicas, by the path of their forms."""
