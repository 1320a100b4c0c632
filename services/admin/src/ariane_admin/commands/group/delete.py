"""``ariane group delete``: a group goes, with all that belongs to nobody else."""

from __future__ import annotations

import click

from ariane.admin.v1.group_service_pb2 import DeleteGroupRequest
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.previews import group_content, message_count
from ariane_admin.counted import counted
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.output import Output
from ariane_record.names import dead_letter_topic


@click.command("delete")
@click.argument("name")
@click.option(
    "--keep-dead-letters", is_flag=True, help="Delete everything except its dead letters."
)
@dry_run_option
@yes_option
@change_options
def delete(
    *,
    name: str,
    keep_dead_letters: bool,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Delete group NAME with its offsets, its retry topic and its dead letters.

    The group must have no live members. Dead letters kept by --keep-dead-letters can still be
    listed, exported and sent back to their topics.

    \b
    Examples:
      ariane group delete billing --dry-run
      ariane group delete billing
      ariane group delete billing --keep-dead-letters --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if dry_run:
        would = run_async(group_content(name_servers, name))
        fate = "kept" if keep_dead_letters else "deleted"
        members = counted(would["members"], "live member")
        held = f"; its {members} must stop first" if would["members"] else ""
        output.done(
            f"Group {name} would be deleted with {counted(would['offsets'], 'offset')} and"
            f" {counted(would['retry_messages'], 'message')} to be retried;"
            f" {counted(would['dead_letters'], 'dead letter')} would be {fate}{held}.",
            {**would, "dead_letters_kept": keep_dead_letters, "dry_run": True},
        )
        return
    letters = "its dead letters"
    if not yes:
        count = run_async(message_count(name_servers, dead_letter_topic(name)))
        letters = counted(count, "dead letter")
    goes = "its offsets and its retry topic"
    goes += f"; keep {letters}" if keep_dead_letters else f", and {letters}"
    confirm(f"Delete group {name} with {goes}?", yes=yes)
    request = DeleteGroupRequest(consumer_group=name, keep_dead_letters=keep_dead_letters)
    answer = changed_everywhere(name_servers, admin, lambda one: one.groups.DeleteGroup, request)
    broker_count = len(answer.outcomes)
    fate = "kept" if keep_dead_letters else "deleted"
    output.done(
        f"Deleted group {name} from {counted(broker_count, 'broker')};"
        f" dead letters {fate}: {answer.dead_letter_count}.",
        {
            "group": name,
            "brokers": broker_count,
            "retry_messages": answer.retry_message_count,
            "dead_letters": answer.dead_letter_count,
            "dead_letters_kept": keep_dead_letters,
        },
    )
