"""``ariane message delayed``: what waits for its delivery time."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ariane.admin.v1.delayed_message_service_pb2 import (
    BrokerDelayedMessages,
    ListDelayedMessagesRequest,
)
from ariane_admin.asking.options import question_options
from ariane_admin.asking.questions import answered
from ariane_admin.terminal.output import Output, Row
from ariane_admin.times import length_text, moment_text

_COLUMNS = ("broker", "level", "delay", "messages", "next_due")


@click.command("delayed")
@question_options
def delayed(*, name_servers: str, output: Output) -> int:
    """List how many messages wait for their delivery, by broker and delay level.

    Messages with a delivery time of their own are a row without a level. A warning names each
    broker that does not answer, and the exit status is 3. To recall one, give its handle to ariane
    message recall.

    \b
    Examples:
      ariane message delayed
      ariane message delayed -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
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
