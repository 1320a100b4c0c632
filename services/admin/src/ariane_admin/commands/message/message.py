"""``ariane message``: finding single messages, and taking back what waits."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from ariane.admin.v1.delayed_message_service_pb2 import RecallMessageRequest
from ariane.admin.v1.message_service_pb2 import GetMessageRequest, QueryMessagesRequest
from ariane.common.v1.message_pb2 import Message
from ariane_admin.asking.changing.changes import AdminChoice, change_options, changed
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import Questions, answered, questions
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.message_body import body_of
from ariane_admin.messages.message_traces import LifeStep
from ariane_admin.messages.start_position import MomentType
from ariane_admin.messages.stored_messages import BodyForm, message_row, shortened
from ariane_admin.servicers.message.message_search import MessageSearch
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.named_files import FileToWrite
from ariane_admin.terminal.output import Output, first_of
from ariane_admin.times import timestamp_of
from ariane_record.errors import RecallHandleIllegal
from ariane_record.single.recall_handle import decode_recall_handle
from ariane_sdk.errors import CallError

_COUNT_MAX = 64
_BODY_BYTES_MAX = 2**31 - 1
_MESSAGE_NOT_FOUND = "MESSAGE_NOT_FOUND"


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
    type=FileToWrite(),
    help="Write the raw body to this file instead of showing it.",
)
@question_options
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
        async with questions(name_servers) as asked:
            request = GetMessageRequest(message_id=message_id, topic=topic)
            try:
                return (await asked.messages.GetMessage(request)).message
            except CallError as error:
                if error.reason != _MESSAGE_NOT_FOUND:
                    raise
            if topic:
                await asked.doors.client.route(topic)
            if asked.unanswered:
                raise CommandFailed(
                    f"no message {message_id} on the brokers that answer", ExitStatus.UNREACHABLE
                )
            hint = "" if topic else "; to find a unique id, give --topic"
            raise CommandFailed(f"no message {message_id}{hint}", ExitStatus.NOT_FOUND)

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
@question_options
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
    if all(each is None for each in (key, unique_id, begin, end)):
        raise click.UsageError("give --key, --unique-id, --from or --until")
    request = QueryMessagesRequest(
        topic=topic,
        begin_time=timestamp_of(begin),
        end_time=timestamp_of(end),
        page_size=count + 1,
        body_bytes_max=_BODY_BYTES_MAX,
    )
    if key is not None:
        request.key = key
    elif unique_id is not None:
        request.unique_id = unique_id
    asked, answer = answered(name_servers, lambda one: one.messages.QueryMessages, request)
    rows = [message_row(each, form) for each in first_of(list(answer.messages), count)]
    output.rows(
        ["store_time", "broker", "queue_id", "queue_offset", "tag", "keys", "message_id", "body"],
        rows if output.for_programs else map(shortened, rows),
    )
    return asked.status


@click.command("trace")
@click.argument("unique_id")
@question_options
def trace(*, unique_id: str, name_servers: str, output: Output) -> int:
    """Show the history of message UNIQUE_ID: sent, consumed, transaction ended, recalled.

    Only clients with the setting message_trace record this history. A warning names each broker
    that does not answer, and the exit status is 3.

    \b
    Examples:
      ariane message trace 0A1B2C3D4E5F60718293A4B5C6D7E8F9
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[Questions, list[LifeStep]]:
        async with questions(name_servers) as asked:
            answers = await asked.access.answers()
            return asked, await MessageSearch(asked.access).life(answers, unique_id)

    asked, steps = run_async(ask())
    if not steps and not asked.unanswered:
        raise CommandFailed(
            f"no trace of message {unique_id}: only clients with the setting message_trace"
            " record one",
            ExitStatus.NOT_FOUND,
        )
    columns = ["time", "what", "successful", "cost_ms", "group", "client", "user", "attempts"]
    output.rows([*columns, "state"], [step.row() for step in steps])
    return asked.status


@click.command("recall")
@click.argument("handle")
@change_options
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
    answer = changed(name_servers, admin, lambda one: one.delayed.RecallMessage, request)
    if not answer.recalled:
        raise CommandFailed("it was already delivered", ExitStatus.REFUSED)
    output.done(
        f"Message {named.unique_id} of {named.topic} will not be delivered.",
        {"topic": named.topic, "unique_id": named.unique_id, "broker": named.broker_name},
    )
