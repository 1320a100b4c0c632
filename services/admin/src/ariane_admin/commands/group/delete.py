"""``ariane group delete``: a group goes, with all that belongs to nobody else."""

from __future__ import annotations

import click

from ariane.admin.v1.group_service_pb2 import DeleteGroupRequest, DeleteGroupResponse
from ariane_admin.asking.changes import AdminChoice, administration, change_option, required
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.output import Output, output_option
from ariane_record.names import dead_letter_topic
from ariane_sdk import QueueReader
from ariane_sdk.errors import RouteNotFound


@click.command("delete")
@click.argument("name")
@click.option("--keep-dead-letters", is_flag=True, help="Delete all but its dead letters.")
@yes_option
@name_servers_option
@change_option
@output_option
def delete(
    *,
    name: str,
    keep_dead_letters: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Delete group NAME with its offsets, its retry topic and its dead letters.

    It must have no live members. Dead letters that are kept can be listed, exported and sent back
    to their topics as before.

    \b
    Examples:
      ariane group delete billing
      ariane group delete billing --keep-dead-letters --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    letters = "its dead letters"
    if not yes:
        count = run_async(_letter_count(name_servers, name))
        letters = f"{count} dead {'letter' if count == 1 else 'letters'}"
    goes = "its offsets and its retry topic"
    goes += f"; {letters} stay" if keep_dead_letters else f", and {letters}"
    confirm(f"Delete group {name} with {goes}?", yes=yes)
    request = DeleteGroupRequest(consumer_group=name, keep_dead_letters=keep_dead_letters)

    async def ask() -> DeleteGroupResponse:
        async with administration(name_servers, admin) as changes:
            answer = await changes.ask(changes.groups.DeleteGroup, request)
        required(answer.outcomes)
        return answer

    answer = run_async(ask())
    broker_count = len(answer.outcomes)
    fate = "kept" if keep_dead_letters else "deleted"
    output.done(
        f"Group {name} is gone from {broker_count} {'broker' if broker_count == 1 else 'brokers'};"
        f" dead letters {fate}: {answer.dead_letter_count}.",
        {
            "group": name,
            "brokers": broker_count,
            "retry_messages": answer.retry_message_count,
            "dead_letters": answer.dead_letter_count,
            "dead_letters_kept": keep_dead_letters,
        },
    )


async def _letter_count(name_servers: str, name: str) -> int:
    async with QueueReader(name_servers) as reader:
        try:
            bounds = await reader.bounds(dead_letter_topic(name))
        except RouteNotFound:
            return 0
        return sum(end - begin for begin, end in bounds.values())
