"""The console's forgetting of a broker that is away and does not come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ariane.admin.v1 import cluster_service_pb2 as cluster_pb
from ariane.namesrv.v1.route_pb2 import AwayBroker
from ariane_admin.console.api import Asker
from ariane_admin.console.blocks import Block, Cell, Form, Input, Notice, Table, moment, number
from ariane_admin.console.changing.change import Change, Given
from ariane_admin.counted import counted


def away_blocks(away: Sequence[AwayBroker]) -> Sequence[Block]:
    """The brokers that are away, and the form that forgets one; nothing if none is away."""
    if not away:
        return ()
    rows = [
        (
            Cell(each.broker_name),
            Cell(each.cluster_name),
            Cell(moment(each, "leave_time"), kind="time"),
            number(each.topic_count),
        )
        for each in away
    ]
    names = sorted({each.broker_name for each in away})
    options = tuple((name, name) for name in names)
    which = Input("broker", "Broker", names[0], "select", options)
    return (
        Table("Brokers that are away", ("Broker", "Cluster", "Away since", "Topics"), rows),
        Notice(
            "Groups that have no offset elsewhere wait a minute for a broker that is away, then"
            " begin at the first message. Start it, or if it is gone for good, have it forgotten."
        ),
        Form(
            "Forget one that does not come back", "/cluster/forget", (which,), "Forget", danger=True
        ),
    )


async def _preview(ask: Asker, given: Given) -> Sequence[Block]:
    answer = await _forgotten(ask, given, validate_only=True)
    left = moment(answer, "leave_time")
    away = f" It is away since {left}." if left else ""
    return (Notice(f"{_routes(answer)} would no longer name it as away.{away}{_missed(answer)}"),)


async def _forget(ask: Asker, given: Given) -> str:
    answer = await _forgotten(ask, given)
    routes = f"{_routes(answer)} no longer name broker {given['broker']} as away."
    return f"{routes}{_missed(answer)}"


async def _forgotten(
    ask: Asker, given: Given, *, validate_only: bool = False
) -> cluster_pb.ForgetBrokerResponse:
    request = cluster_pb.ForgetBrokerRequest(
        broker_name=given["broker"], validate_only=validate_only
    )
    return await ask(ask.api.cluster.ForgetBroker, request)


def _routes(answer: cluster_pb.ForgetBrokerResponse) -> str:
    return f"Routes of {counted(answer.topic_count, 'topic')}"


def _missed(answer: cluster_pb.ForgetBrokerResponse) -> str:
    if not answer.name_server_failures:
        return ""
    return f" Did not answer, and may still name it: {'; '.join(answer.name_server_failures)}."


FORGETTING_CHANGES: Final[Mapping[str, Change]] = {
    "/cluster/forget": Change(
        "Forget broker {broker}, and the offsets of groups that only it has?",
        _forget,
        lambda _: "/cluster",
        danger=True,
        preview=_preview,
    ),
}
"""Forgetting, by the path of its form."""
