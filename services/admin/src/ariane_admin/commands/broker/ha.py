"""``ariane broker ha``: brokers with replicas; who is primary, who follows, and changing it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import click
from google.protobuf.duration_pb2 import Duration

from ariane.admin.v1 import replica_set_service_pb2 as admin_pb
from ariane.replication.v1.replica_pb2 import ReplicaSet
from ariane.replication.v1.replica_set_service_pb2 import GetReplicaSetResponse
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed,
    error_of,
)
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import questions
from ariane_admin.asking.replica_sets import members_of, states_of
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row

_COLUMNS: Final = (
    *("id", "address", "role", "epoch", "in_sync", "attached", "end", "behind_bytes"),
    *("behind_s", "trouble"),
)

_REPLICA_ID: Final = click.IntRange(0, (1 << 63) - 1)


@click.command("status")
@click.argument("name")
@question_options
def status(*, name: str, name_servers: str, output: Output) -> int:
    """Show the primary and replicas of broker NAME, and how far each is behind.

    "Behind" shows the bytes that the primary has and the replica has not yet written, and for how
    long the replica has been incomplete. The exit status is 3 if a broker of the set does not
    answer.

    \b
    Examples:
      ariane broker ha status broker-a
      ariane broker ha status broker-a -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    members = run_async(_members(name_servers, name))
    output.rows(_COLUMNS, _rows(members))
    silent = [error_of(member.error) for member in members if member.HasField("error")]
    for error in silent:
        say_warning(f"a broker of the set does not answer: {error}")
    return ExitStatus.UNREACHABLE if silent else ExitStatus.DONE


@click.command("switchover")
@click.argument("name")
@click.option(
    "--to", "broker_id", type=_REPLICA_ID, required=True, help="Broker id of the replica."
)
@click.option(
    "--grace",
    type=click.FloatRange(0.1, 20),
    default=5.0,
    show_default=True,
    help="Seconds that sends may wait; if it takes longer, the roles stay unchanged.",
)
@dry_run_option
@yes_option
@change_options
def switchover(
    *,
    name: str,
    broker_id: int,
    grace: float,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Make an in-sync replica the primary of broker NAME.

    No send fails: sends wait until the replica has taken over.

    \b
    Example:
      ariane broker ha switchover broker-a --to 1 --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if dry_run:
        would = "would take over as primary"
        _write_dry_run(output, name_servers, name, broker_id, would, must_be_in_sync=True)
        return
    confirm(f"Make broker {broker_id} the primary of {name}?", yes=yes)
    request = admin_pb.TransferPrimaryRequest(broker_name=name, target_broker_id=broker_id)
    request.grace.FromTimedelta(timedelta(seconds=grace))
    answer = changed(name_servers, admin, lambda one: one.replica_sets.TransferPrimary, request)
    _write(output, f"Broker {broker_id} takes over as primary of {name}.", answer.replica_set)


@click.command("elect")
@click.argument("name")
@click.option(
    "--id", "broker_id", type=_REPLICA_ID, required=True, help="Broker id of the replica."
)
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect it even if it is not in sync: messages that it lacks are lost.",
)
@dry_run_option
@yes_option
@change_options
def elect(
    *,
    name: str,
    broker_id: int,
    unclean: bool,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Elect a replica as primary of broker NAME if there is no primary.

    For a replica set whose in-sync members will not come back. With --unclean, a replica that is
    not in sync is elected too, and no other: messages that it lacks are lost, even acknowledged
    ones. Choose the highest epoch in "ariane broker ha status", and among those the largest end.
    Refused while there is a primary. A second order replaces the first.

    \b
    Example:
      ariane broker ha elect broker-a --id 2 --unclean --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if dry_run:
        would = "would be elected if there is no primary"
        _write_dry_run(output, name_servers, name, broker_id, would, must_be_in_sync=not unclean)
        return
    loss = " What only the others hold is lost." if unclean else ""
    confirm(f"Have broker {broker_id} elected as primary of {name}?{loss}", yes=yes)
    request = admin_pb.ElectPrimaryRequest(broker_name=name, broker_id=broker_id, unclean=unclean)
    answer = changed(name_servers, admin, lambda one: one.replica_sets.ElectPrimary, request)
    sentence = f"Broker {broker_id} is ordered to become primary of {name}."
    _write(output, sentence, answer.replica_set)


@click.command("remove")
@click.argument("name")
@click.option(
    "--id", "broker_id", type=_REPLICA_ID, required=True, help="Broker id of the replica."
)
@dry_run_option
@yes_option
@change_options
def remove(
    *,
    name: str,
    broker_id: int,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Remove a lost replica from the replica set of broker NAME.

    Sends no longer wait for this replica. Stop it first: a replica that runs, or is started again,
    rejoins the set. The primary does this, so there must be one.

    \b
    Examples:
      ariane broker ha remove broker-a --id 1 --dry-run
      ariane broker ha remove broker-a --id 1 --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if dry_run:
        would = "would be removed"
        _write_dry_run(output, name_servers, name, broker_id, would, must_be_in_sync=False)
        return
    confirm(f"Remove broker {broker_id} from the replica set of {name}?", yes=yes)
    request = admin_pb.RemoveReplicaRequest(broker_name=name, broker_id=broker_id)
    answer = changed(name_servers, admin, lambda one: one.replica_sets.RemoveReplica, request)
    sentence = f"Broker {broker_id} is no longer in the replica set of {name}."
    _write(output, sentence, answer.replica_set)


async def _members(name_servers: str, name: str) -> Sequence[admin_pb.ReplicaSetMember]:
    async with questions(name_servers) as asked:
        return await members_of(asked, name)


def _write_dry_run(
    output: Output,
    name_servers: str,
    name: str,
    broker_id: int,
    would: str,
    *,
    must_be_in_sync: bool,
) -> None:
    """Write how a broker of a set stands that something would be done to.

    Raises:
        CommandFailed: The set has no such broker, or it is not in sync where it must be.
    """
    rows = {row["id"]: row for row in _rows(run_async(_members(name_servers, name)))}
    if broker_id not in rows:
        known = ", ".join(map(str, rows))
        raise CommandFailed(
            f"{name} has no broker {broker_id}; its ids are {known}", ExitStatus.NOT_FOUND
        )
    row = rows[broker_id]
    if must_be_in_sync and not row["in_sync"]:
        raise CommandFailed(
            f"broker {broker_id} of {name} is not in sync, so this would be refused",
            ExitStatus.REFUSED,
        )
    behind = row["behind_bytes"]
    far = (
        f"{counted(behind, 'byte')} behind"
        if isinstance(behind, int)
        else "how far it is behind is not known"
    )
    synced = "in sync" if row["in_sync"] else "not in sync"
    attached = ", attached" if row["attached"] else ""
    output.done(
        f"Broker {broker_id} of {name} {would}: {row['role']}{attached}, {synced}, {far}.",
        {"broker": name, **row, "dry_run": True},
    )


def _write(output: Output, sentence: str, changed: ReplicaSet) -> None:
    has_primary = changed.HasField("primary_broker_id")
    output.done(
        sentence,
        {
            "broker": changed.broker_name,
            "epoch": changed.epoch,
            "primary_id": changed.primary_broker_id if has_primary else None,
            "in_sync": list(changed.in_sync_broker_ids),
        },
    )


def _rows(members: Sequence[admin_pb.ReplicaSetMember]) -> list[Row]:
    """One row for each broker of a set, by id; those that do not answer as the others know them.

    Raises:
        CallError: None answers.
    """
    known = states_of(members)
    newest = max(known, key=lambda state: state.replica_set.version)
    row = newest.replica_set
    of_primary = {
        replica.broker_id: replica
        for state in known
        if state.has_lease
        for replica in state.replicas
    }
    says = {state.broker_id: state for state in known}
    rows: list[Row] = []
    for broker_id, address in sorted(row.addresses.items()):
        own, seen = says.get(broker_id), of_primary.get(broker_id)
        is_primary = own is not None and own.has_lease
        rows.append(
            {
                "id": broker_id,
                "address": address,
                "role": _role(own),
                "epoch": own.epochs[-1].epoch if own is not None and own.epochs else None,
                "in_sync": broker_id in row.in_sync_broker_ids,
                "attached": None if is_primary or seen is None else seen.attached,
                "end": own.max_commit_log_offset if own is not None else None,
                "behind_bytes": None if seen is None else seen.behind_bytes,
                "behind_s": None if seen is None else round(_seconds(seen.behind_for), 1),
                "trouble": own.trouble if own is not None else "it does not answer",
            }
        )
    return rows


def _role(own: GetReplicaSetResponse | None) -> str:
    """What a broker is, by what it says itself."""
    if own is None:
        return "away"
    if own.has_lease:
        return "primary"
    row = own.replica_set
    is_primary = row.HasField("primary_broker_id") and row.primary_broker_id == own.broker_id
    return "no lease" if is_primary else "replica"


def _seconds(duration: Duration) -> float:
    return duration.ToMilliseconds() / 1000
