"""``ariane filter try``: a filter over the last messages of a topic, before it is relied on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final

import click

from ariane.filter.v1.filter_service_pb2 import MessageRange, TryFilterRequest
from ariane_admin.asking.changing.module_file import module_in
from ariane_admin.asking.cluster_doors import PATIENCE_S, ClusterDoors, answer_from
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.filter_servers import LOAD_SECONDS_MAX, FilterServer, filter_servers
from ariane_admin.asking.options import question_options
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.message_lines import as_row
from ariane_admin.messages.stored_messages import shortened
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row
from ariane_sdk import MessageQueue, QueueReader, ReceivedMessage, Uploaded

_COUNT_MAX: Final = 1000
_COLUMNS: Final = ("matches", "broker", "queue_id", "queue_offset", "tag", "properties", "body")


@click.command("try")
@click.argument("filter_or_file", metavar="NAME@VERSION|FILE")
@click.argument("topic")
@click.option(
    "--count",
    type=click.IntRange(1, _COUNT_MAX),
    default=20,
    show_default=True,
    help="Number of messages, the newest of the topic.",
)
@click.option("--matches", "only_matches", is_flag=True, help="Show only the messages that match.")
@question_options
def try_filter(
    *,
    filter_or_file: str,
    topic: str,
    count: int,
    only_matches: bool,
    name_servers: str,
    output: Output,
) -> None:
    """Run a filter over the newest messages of TOPIC, and show which match.

    The filter is an uploaded version or a local file. It runs in the sandbox of a FilterServer,
    stores nothing and affects no group.

    \b
    Examples:
      ariane filter try late.py flights --count 100
      ariane filter try late@3f2a9c1b5d6e flights --matches
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    subject = _subject(filter_or_file)

    async def ask() -> list[Row]:
        async with (
            ClusterDoors(name_servers) as doors,
            QueueReader(name_servers, patience_s=PATIENCE_S) as reader,
        ):
            messages = await _last(reader, topic, count)
            verdicts = await _verdicts(doors, subject, messages)
            return [
                {"matches": verdicts[_place(message)], **as_row(message)} for message in messages
            ]

    rows = run_async(ask())
    matching = sum(bool(row["matches"]) for row in rows)
    shown = [row for row in rows if row["matches"] or not only_matches]
    if output.for_programs:
        output.rows(_COLUMNS, shown)
        return
    output.rows(_COLUMNS, [{**shortened(row), "matches": _word(row)} for row in shown])
    click.echo(f"{matching} of {counted(len(rows), 'message')} matched.")


def _word(row: Row) -> str:
    return "yes" if row["matches"] else "no"


def _subject(filter_or_file: str) -> TryFilterRequest:
    path = Path(filter_or_file)
    with suppress(OSError):  # A name that is too long for a file is no file.
        if path.is_file():
            return TryFilterRequest(module=module_in(path))
    if "@" not in filter_or_file:
        raise CommandFailed(
            f"{filter_or_file} is neither a file nor NAME@VERSION", ExitStatus.USAGE
        )
    return TryFilterRequest(filter=Uploaded(filter_or_file).filter_version)


async def _last(reader: QueueReader, topic: str, count: int) -> list[ReceivedMessage]:
    """The newest messages of a topic, the oldest of them first.

    Raises:
        CommandFailed: The topic has none.
    """
    found: list[ReceivedMessage] = []
    for queue, (begin, end) in sorted((await reader.bounds(topic)).items()):
        async for columns in reader.read_range(queue, max(begin, end - count), end):
            found += [ReceivedMessage(view, queue) for view in columns.iter_messages()]
    if not found:
        raise CommandFailed(f"topic {topic} has no messages to try it on", ExitStatus.NOT_FOUND)
    found.sort(key=attrgetter("store_timestamp_ms", "message_queue", "queue_offset"))
    return found[-count:]


async def _verdicts(
    doors: ClusterDoors,
    subject: TryFilterRequest,
    messages: Sequence[ReceivedMessage],
) -> Mapping[tuple[MessageQueue, int], bool]:
    """Whether each message would be delivered, by its place."""
    servers = {server.broker_name: server for server in await filter_servers(doors)}
    by_broker: defaultdict[str, list[ReceivedMessage]] = defaultdict(list)
    for message in messages:
        by_broker[message.message_queue.broker_name].append(message)
    verdicts: dict[tuple[MessageQueue, int], bool] = {}
    for broker_name, theirs in by_broker.items():
        if broker_name not in servers:
            raise CommandFailed(
                f"no FilterServer runs beside broker {broker_name}", ExitStatus.UNREACHABLE
            )
        verdicts |= await _ask(doors, servers[broker_name], subject, theirs)
    return verdicts


async def _ask(
    doors: ClusterDoors,
    server: FilterServer,
    subject: TryFilterRequest,
    messages: Iterable[ReceivedMessage],
) -> Mapping[tuple[MessageQueue, int], bool]:
    request = TryFilterRequest()
    request.CopyFrom(subject)
    for message in sorted(messages, key=_place):
        queue, offset = _place(message)
        last = request.ranges[-1] if request.ranges else None
        if (
            last is not None
            and (last.topic, last.queue_id) == (queue.topic, queue.queue_id)
            and last.end_queue_offset == offset
        ):
            last.end_queue_offset += 1
            continue
        request.ranges.append(
            MessageRange(
                topic=queue.topic,
                queue_id=queue.queue_id,
                begin_queue_offset=offset,
                end_queue_offset=offset + 1,
            )
        )
    stub = doors.filters(server.address)
    answer = await answer_from(str(server), stub.TryFilter, request, seconds_max=LOAD_SECONDS_MAX)
    return {
        (MessageQueue(each.topic, server.broker_name, each.queue_id), each.queue_offset): (
            each.matches
        )
        for each in answer.verdicts
    }


def _place(message: ReceivedMessage) -> tuple[MessageQueue, int]:
    return message.message_queue, message.queue_offset
