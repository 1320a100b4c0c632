"""``ariane produce``: lines become messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import BinaryIO

import click

from ariane_admin.connection import name_servers_option, run_async
from ariane_admin.errors import CommandFailed
from ariane_admin.exits import ExitStatus, exit_status_of
from ariane_admin.line_input import iter_lines
from ariane_admin.message_lines import MessageDefaults
from ariane_admin.output import Output, output_option
from ariane_admin.progress import progress
from ariane_sdk import Message, Producer, SendResult
from ariane_sdk.errors import ArianeError, BatchSendError


@click.command()
@click.argument("topic")
@click.argument("source", type=click.File("rb"), default="-")
@click.option("--tag", default="", help="Tag of the messages.")
@click.option("--key", "keys", multiple=True, help="A key of the messages; may be repeated.")
@click.option("--group", "message_group", default="", help="Message group of the messages.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the messages; may be repeated.",
)
@click.option(
    "--input",
    "input_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What a line is: the body, or an object with body, tag, keys, message_group, properties.",
)
@name_servers_option
@output_option
def produce(
    *,
    topic: str,
    source: BinaryIO,
    tag: str,
    keys: tuple[str, ...],
    message_group: str,
    properties: tuple[str, ...],
    input_format: str,
    name_servers: str,
    output: Output,
) -> None:
    """Send each line of SOURCE (standard input by default) to TOPIC.

    Lines are sent as they come, and in one message group they stay in order.

    \b
    Examples:
      echo 'first order' | ariane produce orders --tag created --key o-1
      ariane produce orders events.jsonl --input json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    defaults = MessageDefaults(topic, tag, keys, message_group, _pairs(properties))
    make: Callable[[bytes, int], Message] = (
        defaults.from_json
        if input_format == "json"
        else lambda line, _number: defaults.from_text(line)
    )
    with progress() as show:
        sent = run_async(_send_lines(name_servers, source.fileno(), make, show))
    output.done(
        f"Sent {sent:,} {'message' if sent == 1 else 'messages'} to {topic}.",
        {"topic": topic, "sent": sent},
    )


async def _send_lines(
    name_servers: str,
    file_descriptor: int,
    make: Callable[[bytes, int], Message],
    show: Callable[[str], None],
) -> int:
    sent = 0
    async with Producer(name_servers) as producer, aclosing(iter_lines(file_descriptor)) as chunks:
        async for lines in chunks:
            messages = [make(line, sent + number) for number, line in enumerate(lines, start=1)]
            try:
                sent += len(await producer.send_batch(messages))
                show(f"{sent:,} messages sent")
            except BatchSendError as error:
                raise _stopped(error, sent) from error
    return sent


def _stopped(error: BatchSendError, sent: int) -> CommandFailed:
    """Return how far it came, and why no further; the status is that of the first refusal."""
    sent += sum(isinstance(outcome, SendResult) for outcome in error.outcomes)
    first = next(outcome for outcome in error.outcomes if isinstance(outcome, ArianeError))
    status = ExitStatus.OUTCOME_UNKNOWN if error.outcome_unknown else exit_status_of(first)
    return CommandFailed(f"{first} ({sent:,} messages were sent)", status)


def _pairs(properties: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for pair in properties:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--property")
        pairs[name] = value
    return pairs
