"""``ariane group running``: what the live members of a group are at, as they say themselves."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from ariane.admin.v1.client_service_pb2 import (
    ClusterClient,
    GetClientStateRequest,
    ListClientsRequest,
)
from ariane.broker.v1.client_question_pb2 import ClientState
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import Questions, questions
from ariane_admin.errors import CommandFailed
from ariane_admin.group_texts import pause_warning, paused_on, subscriptions_of
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.error_statuses import line_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Part, Row
from ariane_admin.times import moment_text
from ariane_sdk.errors import CallError

if TYPE_CHECKING:
    from ariane.broker.v1.client_question_pb2 import ClientQueueState

ASKED_TOGETHER_MAX: Final = 32

_SETTING: Final = "settings."

_QUEUE_COLUMNS: Final = (
    *("topic", "broker", "queue_id", "consumer_offset", "next_pull_offset", "in_flight"),
    *("waiting", "bytes", "oldest", "since_pull_ms", "since_delivery_ms", "paused"),
)


@click.command("running")
@click.argument("name")
@click.option("--member", "client_id", default="", help="Only the member with this client id.")
@click.option("--stacks", is_flag=True, help="Show the stacks of its threads and tasks, too.")
@question_options
def running(
    *, name: str, client_id: str, stacks: bool, name_servers: str, output: Output
) -> ExitStatus:
    """Show what the live members of group NAME report about their work.

    Each member reports its versions and settings, and for each of its queues: its offset, the
    messages that the listener is processing ("in flight"), those waiting for the listener, and the
    time since the last one arrived. Stacks name threads, tasks and code locations but no values; a
    client may refuse to show them (its setting stacks_on_request). Members that receive without
    owning queues have none here; see ariane group show.

    A warning names each member that does not answer, and the exit status is 3.

    \b
    Examples:
      ariane group running billing
      ariane group running billing --member 10.0.0.7@4242#1f3c --stacks -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[Questions, Sequence[Row], Sequence[str]]:
        async with questions(name_servers) as asked:
            group = await asked.group(name)
            wanted = await _members(asked, name, client_id)
            turns = asyncio.Semaphore(ASKED_TOGETHER_MAX)

            async def ask_member(one: ClusterClient) -> Row:
                async with turns:
                    return await _state_row(asked, name, one, with_stacks=stacks)

            rows = await asyncio.gather(*map(ask_member, wanted))
            return asked, rows, paused_on(group)

    asked, rows, paused = run_async(ask())
    if output.for_programs:
        output.rows(("client_id",), rows)
    else:
        for number, row in enumerate(rows):
            _write(output, row, gap=number > 0, with_settings=bool(client_id))
    if paused:
        say_warning(pause_warning(name, paused))
    if not rows:
        say_warning(f"group {name} has no live member connected to a broker")
    errors = [str(row["error"]) for row in rows if row["error"]]
    for error in errors:
        say_warning(error)
    return ExitStatus.UNREACHABLE if errors else asked.status


async def _members(asked: Questions, name: str, client_id: str) -> Sequence[ClusterClient]:
    """The live members by client id, or one of them."""
    answer = await asked.clients.ListClients(ListClientsRequest(consumer_group=name))
    found = [one for one in answer.clients if client_id in {"", one.client.hello.client_id}]
    if client_id and not found:
        raise CommandFailed(
            f"group {name} has no live member {client_id!r}; ariane group show {shlex.quote(name)}"
            " lists them",
            ExitStatus.UNREACHABLE if asked.unanswered else ExitStatus.NOT_FOUND,
        )
    return found


async def _state_row(
    asked: Questions, group: str, member: ClusterClient, *, with_stacks: bool
) -> Row:
    """What a member says, or why it did not."""
    hello = member.client.hello
    membership = next(each for each in hello.memberships if each.consumer_group == group)
    row = {
        "client_id": hello.client_id,
        "address": member.client.address,
        "subscriptions": subscriptions_of(membership),
    }
    request = GetClientStateRequest(client_id=hello.client_id, with_stacks=with_stacks)
    try:
        state = (await asked.clients.GetClientState(request)).state
    except CallError as error:
        return {**row, "error": line_of(error), **_of_state(None)}
    return {**row, "error": None, **_of_state(state)}


def _of_state(state: ClientState | None) -> Row:
    if state is None:
        state = ClientState()
    facts = sorted(state.facts.items())
    return {
        "facts": {name: value for name, value in facts if not name.startswith(_SETTING)},
        "settings": {
            name.removeprefix(_SETTING): value for name, value in facts if name.startswith(_SETTING)
        },
        "queues": list(map(_queue_row, state.queues)),
        "stacks": [
            {
                "name": stack.name,
                "kind": "thread" if stack.is_thread else "task",
                "frames": list(stack.frames),
            }
            for stack in state.stacks
        ],
        "stacks_refusal": state.stacks_refusal,
        "truncated": state.truncated,
    }


def _queue_row(queue: ClientQueueState) -> Row:
    has = queue.HasField
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
        "consumer_offset": queue.consumer_offset,
        "next_pull_offset": queue.next_pull_offset,
        "in_flight": queue.in_flight_count,
        "waiting": queue.waiting_count,
        "bytes": queue.size_bytes,
        "oldest": moment_text(queue, "oldest_store_time"),
        "since_pull_ms": queue.since_pull.ToMilliseconds() if has("since_pull") else None,
        "since_delivery_ms": (
            queue.since_delivery.ToMilliseconds() if has("since_delivery") else None
        ),
        "paused": queue.paused,
    }


def _write(output: Output, row: Row, *, gap: bool, with_settings: bool) -> None:
    """One member for a person."""
    lists = {"facts", "settings", "queues", "stacks", "stacks_refusal", "truncated", "error"}
    facts, settings, queues, stacks = (
        *(row["facts"], row["settings"], row["queues"], row["stacks"]),
    )
    if gap:
        click.echo()
    fields = {name: value for name, value in row.items() if name not in lists}
    parts: dict[str, Part] = {}
    if isinstance(facts, dict):
        fields |= facts
    if isinstance(settings, dict) and with_settings:
        rows = [{"setting": name, "value": value} for name, value in settings.items()]
        parts["settings"] = (("setting", "value"), rows)
    if isinstance(queues, list):
        parts["queues"] = (_QUEUE_COLUMNS, queues)
    output.record(fields, parts)
    if isinstance(stacks, list):
        for stack in stacks:
            frames = "".join(f"\n  {frame}" for frame in stack["frames"])
            output.done(f"\n{stack['kind'].capitalize()} {stack['name']}:{frames}", {})
    if row["stacks_refusal"]:
        say_warning(f"{row['client_id']} does not report its stacks: {row['stacks_refusal']}")
    if row["truncated"]:
        say_warning(f"{row['client_id']} has more queues or stacks than are shown")
