"""``ariane topic tail``: the newest messages of a topic, where they lie and what they say."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

import click

from ariane_admin.asking.cluster_doors import PATIENCE_S
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.messages.message_lines import as_row
from ariane_admin.messages.newest_messages import newest_messages
from ariane_admin.messages.queue_tail import follow_from
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.error_statuses import reasoned
from ariane_admin.terminal.output import Output
from ariane_record.control_characters import shown
from ariane_sdk import QueueReader, ReceivedMessage
from ariane_sdk.errors import BodyDamaged

LAST_MAX: Final = 10_000
BODY_CHARACTERS: Final = 120
"""The most characters of a body in a line for people."""


@click.command()
@click.argument("name")
@click.option(
    "--last",
    "-n",
    type=click.IntRange(0, LAST_MAX),
    default=10,
    show_default=True,
    help="Number of stored messages to start with, the newest.",
)
@click.option("--no-follow", is_flag=True, help="Stop after the stored messages.")
@question_options
def tail(*, name: str, last: int, no_follow: bool, name_servers: str, output: Output) -> None:
    """Show the newest messages of topic NAME, and new ones as they arrive, until Ctrl-C.

    Each message is one line: store time, position, tag, keys, and the beginning of the body.
    Nothing is stored and no consumer group is affected. With -o json each line is the whole
    message.

    \b
    Examples:
      ariane topic tail orders
      ariane topic tail orders --last 100 --no-follow
      ariane topic tail orders -n 0 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    run_async(_tail(name_servers, name, last, output, no_follow=no_follow))


async def _tail(
    name_servers: str, topic: str, last: int, output: Output, *, no_follow: bool
) -> None:
    async with QueueReader(name_servers, patience_s=PATIENCE_S) as reader:
        bounds = await reader.bounds(topic)
        for message in await newest_messages(reader, bounds, last):
            _write(message, output)
        if no_follow:
            return
        next_offsets = {queue: end for queue, (_, end) in bounds.items()}
        async with aclosing(follow_from(reader, topic, next_offsets)) as messages:
            async for message in messages:
                _write(message, output)


def _write(message: ReceivedMessage, output: Output) -> None:
    """One message as a line; a body that cannot be read is told, and passed over."""
    try:
        if output.for_programs:
            output.line(as_row(message))
        else:
            click.echo(_line(message))
    except BodyDamaged as error:
        say_warning(f"skipped a message: {reasoned(error)}")


def _line(message: ReceivedMessage) -> str:
    queue = message.message_queue
    body = bytes(message.body).decode(errors="backslashreplace")
    if len(body) > BODY_CHARACTERS:
        body = f"{body[:BODY_CHARACTERS]}... ({len(message.body):,} bytes)"
    labels = " ".join(filter(None, (message.tag, *message.keys)))
    return shown(
        f"{message.store_time.isoformat(timespec='milliseconds')}"
        f"  {queue.broker_name}/{queue.queue_id}/{message.queue_offset}"
        f"  [{labels}]  {body}"
    )
