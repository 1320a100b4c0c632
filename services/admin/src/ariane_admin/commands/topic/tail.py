"""``ariane topic tail``: the newest messages of a topic, where they lie and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Final

import click

from ariane_admin.asking.cluster_doors import PATIENCE_S
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.messages.message_lines import as_row
from ariane_admin.messages.queue_tail import follow_from
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.error_statuses import reasoned
from ariane_admin.terminal.output import Output
from ariane_admin.terminal.output_reader import while_read
from ariane_record.control_characters import shown
from ariane_sdk import MessageQueue, QueueReader, ReceivedMessage
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
    run_async(while_read(_tail(name_servers, name, last, output, no_follow=no_follow)))


async def _tail(
    name_servers: str, topic: str, last: int, output: Output, *, no_follow: bool
) -> None:
    async with QueueReader(name_servers, patience_s=PATIENCE_S) as reader:
        bounds = await reader.bounds(topic)
        for message in await _newest_messages(reader, bounds, last):
            _write(message, output)
        if no_follow:
            return
        next_offsets = {queue: end for queue, (_, end) in bounds.items()}
        async with aclosing(follow_from(reader, topic, next_offsets)) as messages:
            async for message in messages:
                _write(message, output)


async def _newest_messages(
    reader: QueueReader, bounds: Mapping[MessageQueue, tuple[int, int]], count: int
) -> list[ReceivedMessage]:
    """The newest messages of all queues together, in the order in which they were stored.

    Args:
        reader: Reads them.
        bounds: The first queue offset, and that behind the last, of each queue.
        count: The most messages.

    Raises:
        CallError: A broker did not answer.
    """
    found: list[ReceivedMessage] = []
    for queue, (begin, end) in sorted(bounds.items()):
        async for columns in reader.read_range(queue, max(begin, end - count), end):
            found += (ReceivedMessage(view, queue) for view in columns.iter_messages())
    # Queues of one broker share a log; brokers only their clocks.
    found.sort(key=_stored_order)
    return found[-count:] if count else []


def _stored_order(message: ReceivedMessage) -> tuple[datetime, str, int]:
    """What messages are sorted by: time, then the broker's own order."""
    return message.store_time, message.message_queue.broker_name, message.commit_log_offset


def _write(message: ReceivedMessage, output: Output) -> None:
    """Write one message as a line; one whose body cannot be read is passed over with a warning."""
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
