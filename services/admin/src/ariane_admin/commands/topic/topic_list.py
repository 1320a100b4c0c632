"""``ariane topic list``: the command that people run most loads no more than it needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import click

from ariane.broker.v1.topic_service_pb2 import ListTopicsRequest, Topic
from ariane_admin.asking.absent_brokers import warn_of_absent
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    PAGE_SIZE,
    ClusterDoors,
    answer_to_question,
    broker_peer,
)
from ariane_admin.asking.connection import name_servers_option, run_async
from ariane_admin.asking.roll_call import RollCall, write_rows
from ariane_admin.commands.topic.words import message_type_word, permission_word
from ariane_admin.terminal.output import Output, Row, output_option
from ariane_sdk import LiveBroker

_COLUMNS: Final = ("topic", "brokers", "read_queues", "write_queues", "permission", "type")
_TOTALS: Final = ("read_queues", "write_queues")

_DIFFERS: Final = "differs"
"""What stands for a permission or type that is not the same on all brokers."""


@click.command("list")
@click.option("--system", is_flag=True, help="Include the system's own topics.")
@name_servers_option
@output_option
def list_topics(*, system: bool, name_servers: str, output: Output) -> int:
    """List topics by name, with their queues on all brokers.

    "differs" marks a value that brokers do not agree on; see ariane topic show --brokers. A warning
    names each broker that does not answer; totals then cover the others only, and the exit status
    is 3.

    \b
    Example:
      ariane topic list -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    roll, rows = run_async(_rows(name_servers, include_system=system))
    return write_rows(output, roll, _COLUMNS, rows, totals=_TOTALS)


async def _rows(name_servers: str, *, include_system: bool) -> tuple[RollCall, list[Row]]:
    """A row for each topic that name servers know; each broker is asked once a thousand topics.

    Raises:
        NameServersUnreachable: None answered.
        CallError: A broker answered with an error, or there is none.
    """
    async with ClusterDoors(name_servers) as doors:
        names = await doors.client.list_topics(include_system=include_system)
        roll = RollCall(await doors.primaries())
        await warn_of_absent(doors, roll.brokers)

        async def at(broker: LiveBroker) -> list[tuple[str, Topic]]:
            found = await _topics_at(doors, broker, include_system=include_system)
            return [(broker.broker_name, one) for one in found]

        lying: dict[str, list[tuple[str, Topic]]] = defaultdict(list)
        for told in await roll.ask(at, nobody_ok=True):
            for broker_name, found in told:
                lying[found.topic].append((broker_name, found))
        return roll, [_list_row(name, lying.get(name, ())) for name in names]


async def _topics_at(
    doors: ClusterDoors, broker: LiveBroker, *, include_system: bool
) -> list[Topic]:
    topics: list[Topic] = []
    token = ""
    while True:
        request = ListTopicsRequest(
            page_size=PAGE_SIZE, page_token=token, include_system=include_system
        )
        call = doors.topics(broker.address).ListTopics(request, timeout=CALL_SECONDS_MAX)
        page = await answer_to_question(call, broker_peer(broker))
        topics += page.topics
        token = page.next_page_token
        if not token:
            return topics


def _list_row(name: str, lying: Sequence[tuple[str, Topic]]) -> Row:
    """One topic over all brokers; what nobody told is not known."""
    found = [one for _, one in lying]
    return {
        "topic": name,
        "brokers": sorted(broker for broker, _ in lying),
        "read_queues": sum(one.read_queue_count for one in found) if found else None,
        "write_queues": sum(one.write_queue_count for one in found) if found else None,
        "permission": _common({permission_word(one.permission) for one in found}),
        "type": _common({message_type_word(one.message_type) for one in found}),
    }


def _common(words: set[str]) -> str | None:
    if len(words) > 1:
        return _DIFFERS
    return next(iter(words), None)
