"""``ariane broker ha balance``: preferred brokers become primaries, as many on each machine.

Primaries do most of the work, so machines are alike when each has as many of them. Only a replica
in sync that follows its primary can take over without a failed send; a set without a primary is
left alone. Preference goes before balance: a set moves among those that are preferred alike::

    before   machine a: x y z    machine b: -        all four sets have brokers on both
    after    machine a: x y      machine b: z
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import click

from ariane.admin.v1 import replica_set_service_pb2 as admin_pb
from ariane_admin.asking.changing.changes import AdminChoice, administration, change_options
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.questions import questions
from ariane_admin.asking.replica_sets import members_of, states_of
from ariane_admin.counted import counted
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output
from ariane_sdk.errors import CallError
from ariane_servicekit import Address

_COLUMNS: Final = ("broker", "from_id", "to_id", "from_machine", "to_machine", "outcome")


@dataclass(frozen=True, slots=True)
class SetStanding:
    """One replica set."""

    name: str
    """The broker's name."""
    primary_id: int
    """Broker id of the primary."""
    machines: Mapping[int, str]
    """By broker id, the machine of each that could be primary now, and of the primary."""
    preferences: Mapping[int, int]
    """How much each is preferred."""

    @property
    def best(self) -> list[int]:
        """The most preferred ones, by id."""
        most = max(self.preferences[one] for one in self.machines)
        return sorted(one for one in self.machines if self.preferences[one] == most)


class Move(NamedTuple):
    """A switchover that would do good."""

    broker: str
    """The broker's name."""
    from_id: int
    """Broker id of the present primary."""
    to_id: int
    """Broker id of the next one."""
    from_machine: str
    """The machine of the present primary."""
    to_machine: str
    """The machine of the next one."""


def moves_of(sets: Sequence[SetStanding]) -> list[Move]:
    """Switchovers that give every set a preferred primary and level the machines.

    A primary that is as preferred as any stays, unless another machine has fewer by two or more.
    """
    chosen: dict[str, int] = {}
    load: Counter[str] = Counter()

    def choose(each: SetStanding, broker_id: int) -> None:
        if each.name in chosen:
            load[each.machines[chosen[each.name]]] -= 1
        chosen[each.name] = broker_id
        load[each.machines[broker_id]] += 1

    for each in sets:
        if each.primary_id in each.best:
            choose(each, each.primary_id)
    for each in sets:
        if each.name not in chosen:
            choose(each, min(each.best, key=lambda one: load[each.machines[one]]))
    # Each step makes the sum of squares smaller, so this ends.
    improved = True
    while improved:
        improved = False
        for each in sets:
            best = min(each.best, key=lambda one: load[each.machines[one]])
            if load[each.machines[chosen[each.name]]] - load[each.machines[best]] > 1:
                choose(each, best)
                improved = True
    return [
        Move(
            each.name,
            each.primary_id,
            chosen[each.name],
            each.machines[each.primary_id],
            each.machines[chosen[each.name]],
        )
        for each in sets
        if chosen[each.name] != each.primary_id
    ]


@click.command("balance")
@dry_run_option
@yes_option
@change_options
def balance(
    *, dry_run: bool, yes: bool, name_servers: str, admin: AdminChoice, output: Output
) -> int:
    """Give each replica set its preferred primary, and each machine as many primaries.

    Switches over to the in-sync replica with the highest primary_preference. Among equal ones it
    levels the number of primaries on each machine. No send
    fails: sends wait until a replica has taken over. Sets without a primary stay as they are. The
    exit status is 5 if a switchover was refused.

    \b
    Examples:
      ariane broker ha balance --dry-run
      ariane broker ha balance --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    moves = moves_of(run_async(_standings(name_servers)))
    outcomes = ["would switch over"] * len(moves)
    if moves and not dry_run:
        confirm(f"Switch the primary of {counted(len(moves), 'set')}?", yes=yes)
        outcomes = run_async(_perform(moves, name_servers, admin))
    output.rows(
        _COLUMNS,
        [
            {**move._asdict(), "outcome": outcome}
            for move, outcome in zip(moves, outcomes, strict=True)
        ],
    )
    is_refused = not dry_run and any(outcome != "done" for outcome in outcomes)
    return ExitStatus.REFUSED if is_refused else ExitStatus.DONE


async def _standings(name_servers: str) -> list[SetStanding]:
    """All sets with a primary that answers, by name."""
    found = []
    async with questions(name_servers) as asked:
        brokers = await asked.doors.client.list_brokers()
        names = sorted({broker.broker_name for broker in brokers})
        for name in names:
            try:
                members = await members_of(asked, name)
            except CallError as error:
                if error.reason != "FEATURE_NOT_AVAILABLE":
                    say_warning(f"broker {name} is left alone: {error}")
                continue
            standing = standing_of(name, members)
            if standing is None:
                say_warning(f"broker {name} is left alone: it has no primary that answers")
            else:
                found.append(standing)
    return found


def standing_of(name: str, members: Sequence[admin_pb.ReplicaSetMember]) -> SetStanding | None:
    """A set as its primary sees it; None without a primary that answers."""
    state = next((state for state in states_of(members) if state.has_lease), None)
    if state is None:
        return None
    row = state.replica_set
    able = {one.broker_id for one in state.replicas if one.attached and one.in_sync}
    able.add(state.broker_id)
    return SetStanding(
        name,
        state.broker_id,
        {one: Address.parse(row.addresses[one]).host for one in able if one in row.addresses},
        {one: row.wishes[one].preference if one in row.wishes else 0 for one in able},
    )


async def _perform(moves: Sequence[Move], name_servers: str, admin: AdminChoice) -> list[str]:
    """Switch over one set after the other; returns "done" or why not, for each."""
    outcomes = []
    async with administration(name_servers, admin) as changes:
        for move in moves:
            request = admin_pb.TransferPrimaryRequest(
                broker_name=move.broker, target_broker_id=move.to_id
            )
            try:
                await changes.ask(changes.replica_sets.TransferPrimary, request)
            except CallError as error:
                outcomes.append(str(error))
            else:
                outcomes.append("done")
    return outcomes
