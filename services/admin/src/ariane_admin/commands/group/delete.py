"""``ariane group delete``: a group goes, with all that belongs to nobody else."""

from __future__ import annotations

import click

from ariane.broker.v1.group_service_pb2 import (
    DeleteConsumerGroupRequest,
    DeleteConsumerGroupResponse,
)
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    ClusterDoors,
    answer_of,
    ask_each,
    broker_peer,
)
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.terminal.confirmation import confirm, yes_option
from ariane_admin.terminal.output import Output, output_option
from ariane_record.names import dead_letter_topic
from ariane_sdk import LiveBroker, QueueReader
from ariane_sdk.errors import GroupNotFound, RouteNotFound


@click.command("delete")
@click.argument("name")
@click.option("--keep-dead-letters", is_flag=True, help="Delete all but its dead letters.")
@yes_option
@name_servers_option
@output_option
def delete(
    *, name: str, keep_dead_letters: bool, yes: bool, name_servers: str, output: Output
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
    answers = run_async(_delete(name_servers, name, keep_dead_letters=keep_dead_letters))
    if not answers:
        raise GroupNotFound(f"no broker knows group {name!r}; ariane group list shows all")
    retry_count = sum(answer.retry_message_count for answer in answers)
    letter_count = sum(answer.dead_letter_count for answer in answers)
    fate = "kept" if keep_dead_letters else "deleted"
    output.done(
        f"Group {name} is gone from {len(answers)} {'broker' if len(answers) == 1 else 'brokers'};"
        f" dead letters {fate}: {letter_count}.",
        {
            "group": name,
            "brokers": len(answers),
            "retry_messages": retry_count,
            "dead_letters": letter_count,
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


async def _delete(
    name_servers: str, name: str, *, keep_dead_letters: bool
) -> list[DeleteConsumerGroupResponse]:
    """What those brokers answer that knew it."""
    async with ClusterDoors(name_servers) as doors:

        async def at(broker: LiveBroker) -> DeleteConsumerGroupResponse | None:
            request = DeleteConsumerGroupRequest(
                consumer_group=name, keep_dead_letters=keep_dead_letters
            )
            stub = doors.groups(broker.address)
            call = stub.DeleteConsumerGroup(request, timeout=CALL_SECONDS_MAX)
            try:
                return await answer_of(call, broker_peer(broker))
            except GroupNotFound:
                return None

        answers = await ask_each(await doors.primaries(), at)
        return [answer for answer in answers if answer is not None]
