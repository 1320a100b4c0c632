"""``ariane topic list``: the command that people run most loads no more than it needs."""

from __future__ import annotations

from typing import Final

import click

from ariane.admin.v1.topic_service_pb2 import ClusterTopic, ListTopicsRequest
from ariane_admin.asking.options import question_options
from ariane_admin.asking.partial_answers import write_rows
from ariane_admin.asking.questions import answered
from ariane_admin.commands.topic.words import message_type_word, permission_word
from ariane_admin.terminal.output import Output, Row
from ariane_admin.topic_attributes import retention_text

_COLUMNS: Final = (
    *("topic", "brokers", "read_queues", "write_queues"),
    *("permission", "type", "retention"),
)
_TOTALS: Final = ("read_queues", "write_queues")

_DIFFERS: Final = "differs"
"""What stands for a setting that is not the same on all brokers."""


@click.command("list")
@click.option("--system", is_flag=True, help="Include the system's own topics.")
@question_options
def list_topics(*, system: bool, name_servers: str, output: Output) -> int:
    """List topics by name, with their queues on all brokers.

    "differs" marks a value that brokers do not agree on; see ariane topic show --brokers. A topic
    without a retention time of its own has its broker's. A warning names each broker that does not
    answer; totals then cover the others only, and the exit status is 3.

    \b
    Example:
      ariane topic list -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    asked, answer = answered(
        name_servers,
        lambda one: one.topics.ListTopics,
        ListTopicsRequest(include_system=system),
        warn_of_absent=True,
    )
    return write_rows(output, asked, _COLUMNS, map(_list_row, answer.topics), totals=_TOTALS)


def _list_row(topic: ClusterTopic) -> Row:
    """One topic over all brokers; what no broker answered is not known."""
    found = [part.topic for part in topic.placements]
    return {
        "topic": topic.topic,
        "brokers": sorted(part.broker_name for part in topic.placements),
        "read_queues": sum(one.read_queue_count for one in found) if found else None,
        "write_queues": sum(one.write_queue_count for one in found) if found else None,
        "permission": _common({permission_word(one.permission) for one in found}),
        "type": _common({message_type_word(one.message_type) for one in found}),
        "retention": _common(set(map(retention_text, found))),
    }


def _common(words: set[str]) -> str | None:
    if len(words) > 1:
        return _DIFFERS
    return next(iter(words), None)
