"""``ariane topic producers``: who sends to a topic."""

from __future__ import annotations

import click

from ariane.admin.v1.client_service_pb2 import (
    ClusterProducer,
    ListProducersRequest,
    ListProducersResponse,
)
from ariane_admin.asking.options import question_options
from ariane_admin.asking.partial_answers import write_rows
from ariane_admin.asking.questions import Questions, answered, expect_topic
from ariane_admin.terminal.output import Output, Row
from ariane_admin.times import moment_text

_COLUMNS = (
    *("topic", "client_id", "producer_group", "address", "agent"),
    *("messages_per_second", "message_count", "last_time"),
)
_TOTALS = ("messages_per_second", "message_count")


@click.command()
@click.argument("name", required=False, default="")
@click.option("--producer-group", default="", help="Only those of this producer group.")
@question_options
def producers(*, name: str, producer_group: str, name_servers: str, output: Output) -> int:
    """List who sent messages to topic NAME, or to any topic, within the last hour.

    Brokers note whose calls arrive. Our clients say their client id, and their producer group if
    they have one; of others the address is known. The rate is of the last whole minute. A warning
    names each broker that does not answer, and the exit status is 3.

    \b
    Examples:
      ariane topic producers orders
      ariane topic producers --producer-group shop -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = ListProducersRequest(topic=name, producer_group=producer_group)

    async def believed(asked: Questions, answer: ListProducersResponse) -> None:
        if name and not answer.producers:
            await expect_topic(asked, name)

    asked, answer = answered(
        name_servers, lambda one: one.clients.ListProducers, request, believed=believed
    )
    return write_rows(output, asked, _COLUMNS, map(_row, answer.producers), totals=_TOTALS)


def _row(found: ClusterProducer) -> Row:
    producer = found.producer
    return {
        "topic": producer.topic,
        "client_id": producer.client_id,
        "producer_group": producer.producer_group,
        "address": producer.address,
        "agent": producer.agent,
        "user": producer.user,
        "messages_per_second": round(producer.messages_per_second, 1),
        "message_count": producer.message_count,
        "first_time": moment_text(producer, "first_time"),
        "last_time": moment_text(producer, "last_time"),
        "brokers": sorted(found.broker_names),
    }
