"""``ariane produce``: lines become messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import BinaryIO, TextIO

import click

from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.message_lines import MessageDefaults
from ariane_admin.messages.start_position import MomentType
from ariane_admin.terminal.error_statuses import exit_status_of, text_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.line_input import iter_lines
from ariane_admin.terminal.output import Output
from ariane_admin.terminal.progress import progress
from ariane_admin.terminal.waits import WaitType
from ariane_sdk import AcknowledgedLevel, Message, Producer, SendResult
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
    help="Format of a line: the body as text, or a JSON object with body, tag, keys,"
    " message_group, properties, deliver_at, priority.",
)
@click.option(
    "--priority",
    type=click.IntRange(-(1 << 31), (1 << 31) - 1),
    default=0,
    show_default=True,
    help="Priority of the messages; consumers that receive by priority get higher ones first.",
)
@click.option("--delay", type=WaitType(), help="Deliver after this delay, such as 90s or 1h30m.")
@click.option("--at", "deliver_at", type=MomentType(), help="Deliver at this time.")
@click.option(
    "--expire-after", type=WaitType(), help="Let consumers get it only so long, such as 30s or 2h."
)
@click.option(
    "--delay-level",
    type=click.IntRange(1, (1 << 31) - 1),
    help="Deliver after the delay of this level in the broker's table.",
)
@click.option(
    "--handles",
    type=click.File("w", lazy=False),
    help="Write the recall handles of messages sent with --delay or --at to this file,"
    " one per line.",
)
@click.option(
    "--level",
    type=click.Choice(["memory", "flushed", "replicated"]),
    help="How safely a message must be stored before it is acknowledged; the broker's"
    " own level applies if it is higher.",
)
@click.option(
    "--in-sync-min",
    type=click.IntRange(2, (1 << 31) - 1),
    help="Number of in-sync brokers that must have the message, the primary included;"
    " with fewer the send is refused.",
)
@question_options
def produce(
    *,
    topic: str,
    source: BinaryIO,
    tag: str,
    keys: tuple[str, ...],
    message_group: str,
    properties: tuple[str, ...],
    input_format: str,
    priority: int,
    delay: timedelta | None,
    expire_after: timedelta | None,
    deliver_at: datetime | None,
    delay_level: int | None,
    handles: TextIO | None,
    level: str | None,
    in_sync_min: int | None,
    name_servers: str,
    output: Output,
) -> None:
    """Send each line of SOURCE (standard input by default) to TOPIC.

    Lines are sent as they arrive; with --group they stay in order. Messages are delivered at once
    unless --delay, --at, --delay-level or deliver_at says otherwise; ariane message recall takes
    back one that waits for its time.

    \b
    Examples:
      echo 'first order' | ariane produce orders --tag created --key o-1
      ariane produce orders events.jsonl --input json
      echo 'pay by now' | ariane produce reminders --delay 90s --handles handles.txt
      echo 'happy birthday' | ariane produce reminders --at 2026-12-01T08:00:00+01:00
      echo 'at once, please' | ariane produce jobs --priority 5
      echo 'try again' | ariane produce reminders --delay-level 3
      echo 'a payment' | ariane produce payments --level replicated --in-sync-min 3
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if sum(given is not None for given in (delay, deliver_at, delay_level)) > 1:
        raise click.UsageError("give only one of --delay, --at and --delay-level")
    if in_sync_min is not None and level in {"memory", "flushed"}:
        raise click.UsageError("--in-sync-min requires --level replicated")
    safety = _Safety(None if level is None else AcknowledgedLevel[level.upper()], in_sync_min)
    defaults = MessageDefaults(
        topic,
        tag,
        keys,
        message_group,
        _pairs(properties),
        deliver_at=deliver_at,
        delay=delay,
        delay_level=delay_level or 0,
        priority=priority,
        expire_after=expire_after,
    )
    make: Callable[[bytes, int], Message] = (
        defaults.from_json
        if input_format == "json"
        else lambda line, _number: defaults.from_text(line)
    )
    with progress() as show:
        sent = run_async(
            _send_lines(name_servers, source.fileno(), make, show, handles=handles, safety=safety)
        )
    reached = "" if safety.reached is None else safety.reached.name.lower()
    output.done(
        f"Sent {counted(sent, 'message')} to {topic}"
        + (f"; acknowledged as {reached}." if reached else "."),
        {"topic": topic, "sent": sent} | ({"level": reached} if reached else {}),
    )


@dataclass(slots=True)
class _Safety:
    """How safe messages must be, and are."""

    level: AcknowledgedLevel | None
    """What is asked for; None: what the broker promises."""
    in_sync_min: int | None
    """How many brokers must have them."""
    reached: AcknowledgedLevel | None = None
    """The lowest level that any reached; None before the first was acknowledged."""

    @property
    def is_asked(self) -> bool:
        """Whether more is wanted than the broker promises by itself."""
        return self.level is not None or self.in_sync_min is not None

    def saw(self, results: Sequence[SendResult]) -> None:
        """Some were acknowledged."""
        if results and self.is_asked:
            levels = [one.acknowledged_level for one in results]
            self.reached = min(levels if self.reached is None else [*levels, self.reached])


async def _send_lines(
    name_servers: str,
    file_descriptor: int,
    make: Callable[[bytes, int], Message],
    show: Callable[[str], None],
    *,
    handles: TextIO | None,
    safety: _Safety,
) -> int:
    sent = 0
    try:
        async with (
            Producer(name_servers) as producer,
            aclosing(iter_lines(file_descriptor)) as chunks,
        ):
            async for lines in chunks:
                messages = [make(line, sent + number) for number, line in enumerate(lines, start=1)]
                try:
                    results = await producer.send_batch(
                        messages, level=safety.level, in_sync_min=safety.in_sync_min
                    )
                except BatchSendError as error:
                    stored = [one for one in error.outcomes if isinstance(one, SendResult)]
                    sent += len(stored)
                    _write_handles(stored, handles)
                    raise _stopped(error) from error
                safety.saw(results)
                sent += len(results)
                _write_handles(results, handles)
                show(f"{counted(sent, 'message')} sent")
    except CommandFailed as error:
        text = f"{error.message} ({counted(sent, 'message')} sent)"
        raise CommandFailed(text, error.status, reason=error.reason) from error
    return sent


def _write_handles(results: Iterable[SendResult], handles: TextIO | None) -> None:
    """Write handles down at once: whoever is killed later has them.

    Raises:
        CommandFailed: They cannot be written.
    """
    if handles is None:
        return
    try:
        handles.writelines(f"{one.recall_handle}\n" for one in results if one.recall_handle)
        handles.flush()
    except OSError as error:
        raise CommandFailed(f"recall handles cannot be written: {error.strerror}") from error


def _stopped(error: BatchSendError) -> CommandFailed:
    """Why it goes no further; the status is that of the first refusal."""
    first = next(outcome for outcome in error.outcomes if isinstance(outcome, ArianeError))
    status = ExitStatus.OUTCOME_UNKNOWN if error.outcome_unknown else exit_status_of(first)
    return CommandFailed(text_of(first), status, reason=first.reason)


def _pairs(properties: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for pair in properties:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--property")
        pairs[name] = value
    return pairs
