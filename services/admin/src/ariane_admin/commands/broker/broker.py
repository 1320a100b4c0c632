"""``ariane broker``: the brokers, one by one."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import click

from ariane.admin.v1.cluster_service_pb2 import (
    ClusterBroker,
    DrainBrokerRequest,
    DrainBrokerResponse,
    GetBrokerRequest,
    ListBrokersRequest,
    RestoreBrokerRequest,
    RestoreBrokerResponse,
)
from ariane.admin.v1.setting_service_pb2 import ListSettingsRequest
from ariane.broker.v1.broker_service_pb2 import GetBrokerStateResponse
from ariane.common.v1.process_service_pb2 import ProcessSetting
from ariane_admin.asking.absent_brokers import warn_of_absent
from ariane_admin.asking.changing import broker_maintenance
from ariane_admin.asking.changing.changes import AdminChoice, change_options, changed, error_of
from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import questions
from ariane_admin.counted import are, counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.error_statuses import reasoned
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Part, Row
from ariane_admin.terminal.progress import progress
from ariane_admin.times import moment_text


@click.command("list")
@question_options
def list_brokers(*, name_servers: str, output: Output) -> int:
    """List the live brokers with the state that each reports.

    "Writable" is what the broker itself reports. "Wiped" means that the name servers have removed
    its write permission from routes (ariane broker drain). "Stored since start" counts the messages
    that it has stored since its process started. A warning names each broker that does
    not answer; it is listed as the name servers know it, and the exit status is 3. A warning also
    names brokers that are not registered: those that are away, since when, and those that are part
    of a queue order (ariane topic order). For one that does not come back there is ariane broker
    forget.

    \b
    Example:
      ariane broker list
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> list[Row]:
        async with questions(name_servers) as asked:
            await asked.doors.registered()  # Refuses what is no cluster.
            brokers = (await asked.cluster.ListBrokers(ListBrokersRequest())).brokers
            listed = {one.liveness.identity.broker_name for one in brokers}
            await warn_of_absent(asked.doors, listed)
            return list(map(_row, brokers))

    rows = run_async(ask())
    silent = [row["error"] for row in rows if row["error"] is not None]
    for error in silent:
        say_warning(f"a broker does not answer, and is shown as the name servers know it: {error}")
    output.rows(
        (
            *("cluster", "broker", "id", "address", "version", "writable", "wiped", "disk"),
            "stored_since_start",
        ),
        rows,
    )
    return ExitStatus.UNREACHABLE if silent else ExitStatus.DONE


@click.command("show")
@click.argument("name")
@click.option("--settings", is_flag=True, help="Show its settings, too.")
@question_options
def show(*, name: str, settings: bool, name_servers: str, output: Output) -> None:
    """Show the state of broker NAME: its store, its traffic, its recovery findings.

    \b
    Examples:
      ariane broker show broker-a
      ariane broker show broker-a --settings -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[Row, list[Row], list[Row]]:
        async with questions(name_servers) as asked:
            await asked.doors.registered()  # Refuses what is no cluster.
            answer = await asked.cluster.GetBroker(GetBrokerRequest(broker_name=name))
            found = answer.broker
            if found.HasField("error"):
                raise error_of(found.error)
            listed: list[Row] = []
            if settings:
                address = found.liveness.identity.address
                request = ListSettingsRequest(service="broker", address=address)
                kept = (await asked.settings.ListSettings(request)).settings
                listed = [_setting_row(each.setting) for each in kept]
            return _state_row(found), _level_rows(found.state), listed

    row, levels, listed = run_async(ask())
    parts: dict[str, Part] = {
        "delay_levels": (("level", "wait", "pending", "next_due_time"), levels)
    }
    if settings:
        parts["settings"] = (("name", "value", "default", "source", "changeable"), listed)
    output.record(row, parts)


@click.command("drain")
@click.argument("name")
@click.option(
    "--wait", is_flag=True, help="Wait until all groups have consumed the broker's messages."
)
@dry_run_option
@yes_option
@change_options
def drain(
    *,
    name: str,
    wait: bool,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Stop broker NAME from accepting messages; consumers continue.

    Every name server removes the broker's write permission from its routes, also after a restart of
    the name server. The broker refuses messages that still arrive. Undo this with ariane broker
    restore.

    \b
    Examples:
      ariane broker drain broker-a --dry-run
      ariane broker drain broker-a --wait --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if dry_run:
        would = run_async(_drainable(name_servers, name))
        left = would["unconsumed_messages"]
        output.done(
            f"Broker {name} would stop accepting messages for its"
            f" {counted(would['topics'], 'topic')}; {_unconsumed(left)}.",
            {**would, "dry_run": True},
        )
        return
    confirm(f"Stop broker {name} from accepting messages?", yes=yes)
    request = DrainBrokerRequest(broker_name=name)
    answer = changed(name_servers, admin, lambda one: one.cluster.DrainBroker, request)
    consumed = ""
    if wait:
        run_async(_wait_consumed(name_servers, name))
        consumed = " All groups have consumed what it keeps."
    _write(output, name, answer, f"Broker {name} accepts no more messages.{consumed}")


async def _wait_consumed(name_servers: str, name: str) -> None:
    """Wait until all groups have consumed what a broker keeps, and show how much is left."""
    async with ClusterDoors(name_servers) as doors:
        [found] = await doors.primaries([name])
        with progress() as show:
            await broker_maintenance.wait_consumed(
                doors, found, lambda left: show(_unconsumed(left))
            )


def _unconsumed(count: int) -> str:
    return f"{counted(count, 'message')} {are(count)} not consumed yet"


async def _drainable(name_servers: str, name: str) -> dict[str, Any]:
    """What a drain of a broker would stop, and what its groups have still to consume."""
    async with ClusterDoors(name_servers) as doors:
        [found] = await doors.primaries([name])
        left = await broker_maintenance.unconsumed_count(doors, found)
        return {"broker": name, "topics": found.topic_count, "unconsumed_messages": left}


@click.command("restore")
@click.argument("name")
@change_options
def restore(*, name: str, name_servers: str, admin: AdminChoice, output: Output) -> None:
    """Let broker NAME accept messages again after a drain.

    \b
    Example:
      ariane broker restore broker-a
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = RestoreBrokerRequest(broker_name=name)
    answer = changed(name_servers, admin, lambda one: one.cluster.RestoreBroker, request)
    _write(output, name, answer, f"Broker {name} accepts messages.")


def _write(
    output: Output,
    name: str,
    outcome: DrainBrokerResponse | RestoreBrokerResponse,
    sentence: str,
) -> None:
    for reason in outcome.name_server_failures:
        say_warning(reason)
    output.done(
        sentence,
        {
            "broker": name,
            "writable": outcome.writable,
            "topics": outcome.topic_count,
            "name_server_failures": list(outcome.name_server_failures),
        },
    )
    if outcome.name_server_failures:
        raise CommandFailed(
            f"not changed at {counted(len(outcome.name_server_failures), 'name server')}"
            " that did not answer;"
            " repeat the command when all answer",
            ExitStatus.UNREACHABLE,
        )


def _known_row(found: ClusterBroker) -> Row:
    """What name servers know of a broker."""
    identity = found.liveness.identity
    return {
        "cluster": identity.cluster_name,
        "broker": identity.broker_name,
        "id": identity.broker_id,
        "address": identity.address,
        "zone": identity.zone,
        "wiped": found.liveness.write_wiped,
    }


def _row(found: ClusterBroker) -> Row:
    heard = found.liveness.last_heard_time.ToDatetime(UTC)
    known = {
        **_known_row(found),
        "topics": found.liveness.topic_count,
        "last_heard": heard.isoformat(timespec="seconds"),
    }
    if found.HasField("error"):
        unknown = {"version": None, "writable": None, "disk": "not reached"}
        unknown["stored_since_start"] = None
        return {**known, **unknown, "error": reasoned(error_of(found.error))}
    return {
        **known,
        "version": found.version,
        "writable": found.writable,
        "disk": f"{found.store.disk_used_ratio:.0%}",
        "stored_since_start": found.state.statistics.stored_message_count,
        "error": None,
    }


def _state_row(found: ClusterBroker) -> Row:
    state = found.state
    store, statistics, delayed = state.store, state.statistics, state.delayed_messages
    mean_ms = delayed.lateness_duration.ToMilliseconds() / max(1, delayed.measured_count)
    return {
        **_known_row(found),
        "version": state.version,
        "start_time": moment_text(state, "start_time"),
        "writable": state.writable,
        "refusal": store.refusal,
        "flush_mode": store.flush_mode,
        "disk_used": f"{store.disk_used_ratio:.1%}",
        "min_commit_log_offset": store.min_commit_log_offset,
        "max_commit_log_offset": store.max_commit_log_offset,
        "flushed_commit_log_offset": store.flushed_commit_log_offset,
        "confirmed_commit_log_offset": store.confirmed_commit_log_offset,
        "stored_messages_since_start": statistics.stored_message_count,
        "stored_bytes_since_start": statistics.stored_bytes,
        "pulled_messages_since_start": statistics.pulled_message_count,
        "pulled_bytes_since_start": statistics.pulled_bytes,
        "held_pulls": statistics.held_pull_count,
        "clients": statistics.client_count,
        "vanished_members": statistics.vanished_member_count,
        "counted_deaths": statistics.counted_death_count,
        "set_back_offsets": statistics.set_back_offset_count,
        "delayed_pending": delayed.timed_pending_count
        + sum(level.pending_count for level in delayed.levels),
        "delayed_pending_timed": delayed.timed_pending_count,
        "delayed_delivered": delayed.delivered_count,
        "delayed_dropped": delayed.dropped_count,
        "delayed_lateness_ms_mean": round(mean_ms, 1),
        "delayed_lateness_ms_max": delayed.lateness_duration_max.ToMilliseconds(),
        "recovery_findings": list(state.recovery_findings),
        "recovery_notes": list(state.recovery_notes),
    }


def _level_rows(state: GetBrokerStateResponse) -> list[Row]:
    """The delay levels of which messages wait."""
    return [
        {
            "level": level.level,
            "wait": str(level.wait_duration.ToTimedelta()),
            "pending": level.pending_count,
            "next_due_time": moment_text(level, "next_due_time"),
        }
        for level in state.delayed_messages.levels
    ]


def _setting_row(setting: ProcessSetting) -> Row:
    return {
        "name": setting.name,
        "value": setting.value,
        "default": setting.default_value,
        "source": setting.source,
        "changeable": setting.dynamic,
        "description": setting.description,
    }
