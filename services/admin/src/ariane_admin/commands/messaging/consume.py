"""``ariane consume``: messages become lines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterable, Sequence
from contextlib import aclosing
from datetime import datetime

import click

from ariane.admin.v1.group_service_pb2 import UpdateGroupRequest
from ariane.broker.v1.group_service_pb2 import ConsumerGroupChange
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    change_options,
    changed_everywhere,
)
from ariane_admin.asking.cluster_doors import PATIENCE_S
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.questions import questions
from ariane_admin.messages.message_lines import as_row
from ariane_admin.messages.queue_places import QueuePlaces, queue_places
from ariane_admin.messages.queue_tail import Begin, follow, read_stored
from ariane_admin.messages.start_position import MomentType, StartPosition, StartPositionType
from ariane_admin.terminal.client_warnings import client_warnings, say_warning
from ariane_admin.terminal.error_statuses import reasoned
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output
from ariane_admin.terminal.output_reader import while_read
from ariane_record.control_characters import holds_control_character, shown_lines
from ariane_sdk import PushConsumer, QueueReader, ReceiveConsumer, ReceivedMessage
from ariane_sdk.errors import BodyDamaged, MessagesFailed

_LISTENER_BATCH = 32


def _tags(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """The tags of all options, each of which may be an expression like those of subscriptions."""
    tags = [tag.strip() for value in values for tag in value.split("||")]
    if "" in tags or "*" in tags:
        raise click.BadParameter("one tag, or some joined by '||'; without --tag, all messages")
    if any(map(holds_control_character, tags)):
        raise click.BadParameter("a tag must not contain control characters")
    return tuple(tags)


class _Enough(Exception):
    """No more messages are wanted: a message that is refused so stays unconsumed."""


class _Lines:
    """Writes messages, as many as are wanted."""

    def __init__(self, output: Output, tags: Sequence[str], count: int | None) -> None:
        self._output = output
        self._tags = frozenset(tags)
        self._left = count
        self.enough = asyncio.Event()
        self.stopping = asyncio.Event()
        self.failure: OSError | None = None
        """Why nothing more can be written."""
        self.damaged_count = 0
        """Messages that were passed over because their bodies cannot be read."""

    @property
    def status(self) -> ExitStatus:
        """How the command ends, as far as messages are concerned."""
        return ExitStatus.FAILED if self.damaged_count else ExitStatus.DONE

    async def listen(self, messages: Sequence[ReceivedMessage]) -> None:
        """Write `messages`: the listener of a consumer.

        Raises:
            MessagesFailed: The bodies of some cannot be read: the group tries them again, and
                they become dead letters in the end.
        """
        damaged: list[ReceivedMessage] = []
        damage = ""
        for message in messages:
            if not self.enough.is_set():
                try:
                    self.write(message)
                except BodyDamaged as error:
                    damaged.append(message)
                    damage = str(error)
                    continue
                except OSError as error:
                    # A reader that left, a disk that is full: not the fault of messages.
                    self.failure = error
                    self.enough.set()
                else:
                    continue
            # A failure before the consumer stops would be a try of the group.
            await self.stopping.wait()
            raise _Enough
        if damaged:
            raise MessagesFailed(damaged, damage)

    async def write_all(self, messages: AsyncIterable[ReceivedMessage]) -> None:
        """Write `messages` as they come, until no more are wanted.

        One whose body cannot be read is reported, and passed over.
        """
        async for message in messages:
            try:
                self.write(message)
            except BodyDamaged as error:
                self.damaged_count += 1
                say_warning(f"skipped a message: {reasoned(error)}")
            if self.enough.is_set():
                return

    def write(self, message: ReceivedMessage) -> None:
        """Write one message if it is wanted."""
        if self._tags and message.tag not in self._tags:
            return
        if self._output.for_programs:
            self._output.line(as_row(message))
        else:
            click.echo(_shown_body(bytes(message.body)))
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.enough.set()


def _shown_body(body: bytes) -> bytes:
    """A body as it goes out: to files and pipes as it is, to a terminal without what it obeys."""
    if not sys.stdout.isatty():
        return body
    return shown_lines(body.decode(errors="backslashreplace")).encode()


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    type=StartPositionType(),
    default="latest",
    show_default=True,
    help="Where to start; a time is 2026-01-31T10:00:00Z, or -2h for two hours ago."
    " With --group it applies only to queues for which the group has no offset.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="BROKER:ID[=OFFSET]",
    callback=queue_places,
    help="Only this queue, starting at OFFSET if given; may be repeated. Not with --group.",
)
@click.option(
    "--count", type=click.IntRange(1), help="Stop after this many messages; no limit by default."
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    callback=_tags,
    help="Only messages with this tag; may be repeated.",
)
@click.option(
    "--no-follow", is_flag=True, help="Stop after the last stored message. Not with --group."
)
@click.option(
    "--until",
    type=MomentType(),
    help="Do not follow, and stop before the messages stored at this time or later. Not with"
    " --group.",
)
@click.option("--group", help="Consume as a member of this group, and store its offsets.")
@click.option(
    "--receive",
    is_flag=True,
    help="With --group: receive without owning queues, and acknowledge each printed message.",
)
@click.option(
    "--also",
    "more_topics",
    multiple=True,
    metavar="TOPIC",
    help="With --receive: consume this topic, too; may be repeated.",
)
@click.option(
    "--by-priority", is_flag=True, help="With --receive: get messages of higher priority first."
)
@click.option(
    "--in-order/--any-order",
    default=None,
    help="With --receive: have the group receive the messages of each message group one after the"
    " other, or in any order. The group keeps this setting; a new group starts with any order.",
)
@change_options
def consume(
    *,
    topic: str,
    start: StartPosition,
    queues: QueuePlaces,
    count: int | None,
    tags: tuple[str, ...],
    no_follow: bool,
    until: datetime | None,
    group: str | None,
    receive: bool,
    more_topics: tuple[str, ...],
    by_priority: bool,
    in_order: bool | None,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> int:
    """Print the messages of TOPIC, one per line, until Ctrl-C.

    Without --group nothing is stored and no consumer group is affected. While it follows, the
    command warns about brokers that do not answer and waits for them. With --no-follow it warns,
    prints the messages of the others, and exits with status 3.

    A message whose compressed body cannot be read is skipped with a warning, and the final exit
    status is 1. With --group such a message counts as failed: it is delivered again, and finally
    becomes a dead letter.

    Whether a group receives in order is a setting of the group: --in-order and --any-order change
    it on all brokers, before the first message, and are refused if a broker does not answer.

    \b
    Examples:
      ariane consume orders --from earliest --count 10
      ariane consume orders --from earliest --no-follow -o json
      ariane consume orders --from -2h --until -1h
      ariane consume orders --queue broker-a:0=4711 --count 10 --no-follow
      ariane consume orders --group billing --tag created
      ariane consume orders --group waiters --receive --from earliest
      ariane consume orders --also returns --group waiters --receive --by-priority
      ariane consume orders --group waiters --receive --in-order
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if group is not None and (no_follow or until is not None):
        raise click.UsageError("--no-follow or --until and --group cannot be used together")
    if group is not None and queues:
        raise click.UsageError("--queue and --group cannot be used together")
    if receive and (group is None or start not in {"earliest", "latest"}):
        raise click.UsageError("--receive needs --group, and --from earliest or latest")
    if (more_topics or by_priority) and not receive:
        raise click.UsageError("--also and --by-priority need --receive")
    if in_order is not None and not receive:
        raise click.UsageError("--in-order and --any-order need --receive")
    lines = _Lines(output, tags, count)
    begin = Begin(start, queues, until)
    if no_follow or until is not None:
        return run_async(_up_to_the_end(name_servers, topic, begin, lines))
    if group is None:
        return run_async(while_read(_following(name_servers, topic, begin, lines)))
    wanted = dict.fromkeys((topic, *more_topics), " || ".join(tags) or "*")
    if receive and group is not None:
        if in_order is not None:
            change = ConsumerGroupChange(consumer_group=group, receive_in_order=in_order)
            _change_group(name_servers, admin, change)
        receiver = ReceiveConsumer(
            name_servers,
            group=group,
            subscriptions=wanted,
            from_oldest=start == "earliest",
            by_priority=by_priority,
        )
        return run_async(while_read(_receiving(receiver, lines, count)))
    consumer = PushConsumer(
        name_servers,
        group=group,
        subscriptions=wanted,
        listener=lines.listen,
        start=start,
        # One message at a time, where the last one counts: the rest stays with the group.
        batch_size=_LISTENER_BATCH if count is None else 1,
    )
    with client_warnings(except_for=_Enough):
        run_async(while_read(_as_member(consumer, lines)))
    return ExitStatus.DONE


async def _following(name_servers: str, topic: str, begin: Begin, lines: _Lines) -> ExitStatus:
    async with (
        QueueReader(name_servers, patience_s=PATIENCE_S) as reader,
        aclosing(follow(reader, topic, begin)) as messages,
    ):
        await lines.write_all(messages)
    return lines.status


async def _up_to_the_end(name_servers: str, topic: str, begin: Begin, lines: _Lines) -> ExitStatus:
    async with questions(name_servers) as asked:
        reader = await asked.access.reader()
        answers = asked.access.asking(await asked.doors.primaries_of(topic))
        async with aclosing(read_stored(reader, topic, begin, answers)) as messages:
            await lines.write_all(messages)
    return asked.status or lines.status


def _change_group(name_servers: str, admin: AdminChoice, change: ConsumerGroupChange) -> None:
    """Change a setting of a group on all brokers; those that do not know the group get it."""
    request = UpdateGroupRequest(group=change, allow_missing=True)
    changed_everywhere(name_servers, admin, lambda one: one.groups.UpdateGroup, request)


async def _receiving(consumer: ReceiveConsumer, lines: _Lines, count: int | None) -> ExitStatus:
    async with (
        consumer,
        aclosing(consumer.receive(min(count or _LISTENER_BATCH, _LISTENER_BATCH))) as messages,
    ):
        async for message in messages:
            try:
                lines.write(message)
            except BodyDamaged as error:
                lines.damaged_count += 1
                say_warning(f"returned a message to the group: {reasoned(error)}")
                await consumer.nack(message, cause=str(error))
            else:
                await consumer.ack(message)
            if lines.enough.is_set():
                break
    return lines.status


async def _as_member(consumer: PushConsumer, lines: _Lines) -> None:
    async with consumer:
        stopped = asyncio.create_task(consumer.run_until_stopped(handle_signals=False))
        enough = asyncio.create_task(lines.enough.wait())
        try:
            await asyncio.wait([stopped, enough], return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                stopped.result()
        finally:
            stopped.cancel()
            enough.cancel()
            stop = asyncio.create_task(consumer.close())
            await asyncio.sleep(0)
            lines.stopping.set()
            await stop
    if lines.failure is not None:
        raise lines.failure
