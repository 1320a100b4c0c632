"""``ariane message``: finding single messages, and taking back what waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from ariane.admin.v1.delayed_message_service_pb2 import RecallMessageRequest
from ariane.broker.v1.query_service_pb2 import GetMessageRequest, QueryMessagesRequest
from ariane.common.v1.message_pb2 import Message
from ariane_admin.asking.changing.changes import AdminChoice, administration, change_option
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    PATIENCE_S,
    ClusterDoors,
    answer_to_question,
    broker_peer,
)
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.asking.partial_answers import PartialAnswers
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.message_body import body_of
from ariane_admin.messages.message_traces import LifeStep, life_of
from ariane_admin.messages.newest_messages import (
    bounds_between,
    newest_messages,
    stored_order,
)
from ariane_admin.messages.start_position import MomentType
from ariane_admin.messages.stored_messages import BodyForm, message_row, received_row, shortened
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row, first_of, output_option
from ariane_admin.times import timestamp_of
from ariane_record.errors import RecallHandleIllegal
from ariane_record.names import TRACE_TOPIC
from ariane_record.single.recall_handle import decode_recall_handle
from ariane_sdk import LiveBroker, QueueReader, ReceivedMessage
from ariane_sdk.errors import CallError, TopicNotFound

_COUNT_MAX = 64
_ABSENT = frozenset({"MESSAGE_NOT_FOUND", "FIELD_INVALID"})


@click.command("show")
@click.argument("message_id")
@click.option("--topic", default="", help="Topic of the message; required with a unique id.")
@click.option(
    "--body",
    "body_form",
    type=click.Choice([form.value for form in BodyForm]),
    default=BodyForm.TEXT.value,
    show_default=True,
    help="How to show the body; a body that is not text is shown as hex.",
)
@click.option(
    "--save-body",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the raw body to this file instead of showing it.",
)
@name_servers_option
@output_option
def show(
    *,
    message_id: str,
    topic: str,
    body_form: str,
    save_body: Path | None,
    name_servers: str,
    output: Output,
) -> None:
    """Show the message with MESSAGE_ID: the broker's id or the producer's unique id.

    \b
    Examples:
      ariane message show 7F00000100002A9F00000000000001BC
      ariane message show 0A1B2C3D4E5F60718293A4B5C6D7E8F9 --topic orders --save-body order.bin
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> Message:
        async with ClusterDoors(name_servers) as doors:
            roll = PartialAnswers(await doors.primaries())
            found = await _by_message_id(doors, roll, message_id, topic)
            if not found and topic:
                await doors.client.route(topic)
                request = QueryMessagesRequest(topic=topic, unique_id=message_id)
                found = await _query(doors, roll, request)
            if not found and roll.unanswered:
                raise CommandFailed(
                    f"no message {message_id} on the brokers that answer", ExitStatus.UNREACHABLE
                )
            if not found:
                hint = "" if topic else "; to find a unique id, give --topic"
                raise CommandFailed(f"no message {message_id}{hint}", ExitStatus.NOT_FOUND)
            return found[0]

    found = run_async(ask())
    if save_body is None:
        output.record(message_row(found, BodyForm(body_form)))
        return
    save_body.write_bytes(body_of(found))
    output.record({**message_row(found, BodyForm.NONE), "saved_to": str(save_body)})


@click.command("query")
@click.argument("topic")
@click.option("--key", help="Only messages with this key.")
@click.option(
    "--unique-id", help="Only the message with this unique id, which the producer assigned."
)
@click.option(
    "--from", "begin", type=MomentType(), help="Only messages stored at this time or later."
)
@click.option("--until", "end", type=MomentType(), help="Only messages stored before this time.")
@click.option(
    "--count",
    type=click.IntRange(1, _COUNT_MAX),
    default=32,
    show_default=True,
    help="Maximum number of messages to show, the newest.",
)
@click.option(
    "--body",
    "body_form",
    type=click.Choice([form.value for form in BodyForm]),
    default=BodyForm.TEXT.value,
    show_default=True,
    help="How to show bodies; a body that is not text is shown as hex.",
)
@name_servers_option
@output_option
def query(
    *,
    topic: str,
    key: str | None,
    unique_id: str | None,
    begin: datetime | None,
    end: datetime | None,
    count: int,
    body_form: str,
    name_servers: str,
    output: Output,
) -> int:
    """Find messages of TOPIC by key, unique id or time, newest first.

    A warning names each broker that does not answer; the messages of the others are shown, and the
    exit status is 3. JSON output does not contain the warning: programs must check the exit status.

    \b
    Examples:
      ariane message query orders --key o-4711
      ariane message query orders --key o-4711 --from 2026-01-31T10:00:00Z -o json
      ariane message query orders --from -2h --until -1h
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    form = BodyForm(body_form)
    if key is not None and unique_id is not None:
        raise click.UsageError("give either --key or --unique-id")
    if key is None and unique_id is None:
        if begin is None and end is None:
            raise click.UsageError("give --key, --unique-id, --from or --until")
        span = begin, end
        return _show_found(output, *run_async(_stored_in(name_servers, topic, span, count, form)))
    request = QueryMessagesRequest(
        topic=topic,
        begin_time=timestamp_of(begin),
        end_time=timestamp_of(end),
        message_count_max=min(count + 1, _COUNT_MAX),
    )
    if key is not None:
        request.key = key
    else:
        request.unique_id = unique_id or ""

    async def ask() -> tuple[PartialAnswers, Sequence[Message]]:
        async with ClusterDoors(name_servers) as doors:
            roll = PartialAnswers(await doors.primaries_of(topic))
            return roll, await _query(doors, roll, request)

    roll, found = run_async(ask())
    return _show_found(output, roll, [message_row(e, form) for e in first_of(found, count)])


def _show_found(output: Output, roll: PartialAnswers, rows: Sequence[Row]) -> int:
    output.rows(
        ["store_time", "broker", "queue_id", "queue_offset", "tag", "keys", "message_id", "body"],
        rows if output.for_programs else map(shortened, rows),
    )
    return roll.status


async def _stored_in(
    name_servers: str,
    topic: str,
    span: tuple[datetime | None, datetime | None],
    count: int,
    form: BodyForm,
) -> tuple[PartialAnswers, list[Row]]:
    """The newest messages that were stored in a time, as rows, newest first."""
    async with (
        ClusterDoors(name_servers) as doors,
        QueueReader(name_servers, patience_s=PATIENCE_S) as reader,
    ):
        roll = PartialAnswers(await doors.primaries_of(topic))

        async def at(broker: LiveBroker) -> list[ReceivedMessage]:
            bounds = await bounds_between(reader, topic, *span, broker_name=broker.broker_name)
            return await newest_messages(reader, bounds, count + 1)

        found = sorted(
            (each for part in await roll.ask(at) for each in part), key=stored_order, reverse=True
        )
        return roll, [received_row(each, form) for each in first_of(found, count)]


@click.command("trace")
@click.argument("unique_id")
@name_servers_option
@output_option
def trace(*, unique_id: str, name_servers: str, output: Output) -> int:
    """Show the history of message UNIQUE_ID: sent, consumed, transaction ended, recalled.

    Only clients with the setting message_trace record this history. A warning names each broker
    that does not answer, and the exit status is 3.

    \b
    Examples:
      ariane message trace 0A1B2C3D4E5F60718293A4B5C6D7E8F9
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[PartialAnswers, list[LifeStep]]:
        async with ClusterDoors(name_servers) as doors:
            roll = PartialAnswers(await doors.primaries())
            request = QueryMessagesRequest(
                topic=TRACE_TOPIC, key=unique_id, message_count_max=_COUNT_MAX
            )
            return roll, life_of(unique_id, await _query(doors, roll, request))

    roll, steps = run_async(ask())
    if not steps and not roll.unanswered:
        raise CommandFailed(
            f"no trace of message {unique_id}: only clients with the setting message_trace"
            " record one",
            ExitStatus.NOT_FOUND,
        )
    columns = ["time", "what", "successful", "cost_ms", "group", "client", "attempt", "state"]
    output.rows(columns, [step.row() for step in steps])
    return roll.status


@click.command("recall")
@click.argument("handle")
@name_servers_option
@change_option
@output_option
def recall(*, handle: str, name_servers: str, admin: AdminChoice, output: Output) -> None:
    """Recall the delayed message of HANDLE before it is delivered.

    The handle is part of the send result; ariane produce --handles saves it to a file. Messages
    sent with a delay level have no handle. Recalling a message again changes nothing.

    \b
    Examples:
      ariane message recall djEgb3JkZXJzIGJyb2tlci1hIDE3OTYxMDk2MDAwMDAgMEExQjJD
      xargs -n 1 ariane message recall < handles.txt
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    try:
        named = decode_recall_handle(handle)
    except RecallHandleIllegal as error:
        raise click.UsageError(
            f"{handle!r:.100}: {error}; give the recall handle of a send result"
        ) from None

    request = RecallMessageRequest(recall_handle=handle, topic=named.topic)

    async def ask() -> bool:
        async with administration(name_servers, admin) as changes:
            return (await changes.ask(changes.delayed.RecallMessage, request)).recalled

    if not run_async(ask()):
        raise CommandFailed("it was already delivered", ExitStatus.REFUSED)
    output.done(
        f"Message {named.unique_id} of {named.topic} will not be delivered.",
        {"topic": named.topic, "unique_id": named.unique_id, "broker": named.broker_name},
    )


async def _by_message_id(
    doors: ClusterDoors, roll: PartialAnswers, message_id: str, topic: str
) -> list[Message]:
    """The message of a broker's id. Only the broker that gave it knows it; all are asked."""

    async def at(broker: LiveBroker) -> Message | None:
        request = GetMessageRequest(message_id=message_id, topic=topic)
        call = doors.queries(broker.address).GetMessage(request, timeout=CALL_SECONDS_MAX)
        try:
            return (await answer_to_question(call, broker_peer(broker))).message
        except CallError as error:
            if error.reason in _ABSENT:
                return None
            raise

    return [found for found in await roll.ask(at) if found is not None]


async def _query(
    doors: ClusterDoors, roll: PartialAnswers, request: QueryMessagesRequest
) -> list[Message]:
    """What the brokers of a topic find; newest first."""

    async def at(broker: LiveBroker) -> Sequence[Message]:
        found: list[Message] = []
        wanted = QueryMessagesRequest()
        wanted.CopyFrom(request)
        while True:
            call = doors.queries(broker.address).QueryMessages(wanted, timeout=CALL_SECONDS_MAX)
            try:
                page = await answer_to_question(call, broker_peer(broker))
            except TopicNotFound:
                # It is not there, or was deleted since the route was told.
                return found
            found += page.messages
            wanted.message_count_max -= len(page.messages)
            if not page.truncated or not page.messages or wanted.message_count_max <= 0:
                return found
            # Large bodies have ended the page.
            wanted.before_commit_log_offset = found[-1].position.commit_log_offset

    answers = await roll.ask(at)
    return sorted(
        (found for messages in answers for found in messages),
        key=lambda found: found.position.store_time.ToNanoseconds(),
        reverse=True,
    )
