"""``ariane message delayed``: what waits for its delivery time."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ariane.admin.v1.delayed_message_service_pb2 import (
    BrokerDelayedMessages,
    ListDelayedMessagesRequest,
)
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane_admin.asking.cluster_doors import answer_from
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import Questions, answered, questions
from ariane_admin.terminal.output import Output, Row, first_of
from ariane_admin.times import length_text, moment_text
from ariane_sdk import LiveBroker

_COLUMNS = ("broker", "level", "delay", "messages", "next_due")
_MESSAGE_COLUMNS = ("due", "broker", "level", "tag", "keys", "unique_id", "recall_handle")
_COUNT_MAX = 1_000_000
_PAGE_SIZE_MAX = 1000


@click.command("delayed")
@click.option("--topic", help="List the single messages that wait for this topic.")
@click.option(
    "--count",
    type=click.IntRange(1, _COUNT_MAX),
    default=100,
    show_default=True,
    help="Maximum number of messages to list with --topic.",
)
@question_options
def delayed(*, topic: str | None, count: int, name_servers: str, output: Output) -> int:
    """List how many messages wait for their delivery, or with --topic the messages.

    The counts are by broker and delay level; messages with a delivery time of their own are a row
    without a level. Messages of a topic are the first of each broker, in the order in which they
    wait, shown by their time; those with a handle can be recalled with it (ariane message recall).
    A warning names each broker that does not answer, and the exit status is 3.

    \b
    Examples:
      ariane message delayed
      ariane message delayed --topic orders
      ariane message delayed --topic orders --count 10000 -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if topic is not None:
        asked, rows = run_async(_waiting(name_servers, topic, count))
        output.rows(_MESSAGE_COLUMNS, first_of(rows, count))
        return asked.status
    asked, answer = answered(
        name_servers, lambda one: one.delayed.ListDelayedMessages, ListDelayedMessagesRequest()
    )
    output.rows(_COLUMNS, (row for each in answer.brokers for row in _rows(each)))
    return asked.status


def _rows(broker: BrokerDelayedMessages) -> Iterator[Row]:
    waiting = broker.delayed_messages
    if waiting.timed_pending_count:
        yield {
            "broker": broker.broker_name,
            "level": None,
            "delay": None,
            "messages": waiting.timed_pending_count,
            "next_due": None,
        }
    for level in waiting.levels:
        yield {
            "broker": broker.broker_name,
            "level": level.level,
            "delay": length_text(level.wait_duration.ToMilliseconds()),
            "messages": level.pending_count,
            "next_due": moment_text(level, "next_due_time"),
        }


async def _waiting(name_servers: str, topic: str, count: int) -> tuple[Questions, list[Row]]:
    """The first messages of each broker, one more than wanted, the next due first."""
    async with questions(name_servers) as asked:

        async def at(broker: LiveBroker) -> list[Row]:
            stub = asked.doors.queries(broker.address)
            found: list[Row] = []
            page_size = min(count + 1, _PAGE_SIZE_MAX)
            request = query_pb.ListDelayedMessagesRequest(topic=topic, page_size=page_size)
            while len(found) <= count:
                page = await answer_from(broker, stub.ListDelayedMessages, request)
                found += (_message_row(each, broker.broker_name) for each in page.messages)
                request.page_token = page.next_page_token
                if not page.next_page_token:
                    break
            return found

        answers = asked.access.asking(await asked.doors.primaries_of(topic))
        found = [each for several in await answers.ask(at) for each in several]
    return asked, sorted(found, key=lambda row: str(row["due"]))


def _message_row(message: query_pb.DelayedMessage, broker_name: str) -> Row:
    return {
        "due": moment_text(message, "delivery_time"),
        "broker": broker_name,
        "level": message.delay_level or None,
        "tag": message.tag,
        "keys": list(message.keys),
        "unique_id": message.unique_id,
        "body_bytes": message.body_bytes,
        "store_time": moment_text(message, "store_time"),
        "recall_handle": message.recall_handle,
    }
