"""How topics lie on their brokers: rows of ``ariane topic``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from ariane.admin.v1.topic_service_pb2 import TopicPlacement
from ariane.broker.v1.topic_service_pb2 import ListTopicsRequest, Topic
from ariane_admin.asking.absent_brokers import warn_of_absent
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    PAGE_SIZE,
    PRIMARY_ID,
    ClusterDoors,
    answer_to_question,
    broker_peer,
)
from ariane_admin.asking.roll_call import RollCall
from ariane_admin.commands.topic.words import message_type_word, permission_word
from ariane_admin.terminal.output import Row
from ariane_admin.terminal.times import moment_text
from ariane_sdk import LiveBroker

LIST_COLUMNS: Final = ("topic", "brokers", "read_queues", "write_queues", "permission", "type")
LIST_TOTALS: Final = ("read_queues", "write_queues")

DIFFERS: Final = "differs"
"""What stands for a permission or type that is not the same on all brokers."""


async def list_layouts(name_servers: str, *, include_system: bool) -> tuple[RollCall, list[Row]]:
    """A row for each topic that name servers know; each broker is asked once a thousand topics.

    Raises:
        NameServersUnreachable: None answered.
        CallError: A broker answered with an error.
    """
    async with ClusterDoors(name_servers) as doors:
        names = await doors.client.list_topics(include_system=include_system)
        brokers = await doors.client.list_brokers()
        roll = RollCall([one for one in brokers if one.broker_id == PRIMARY_ID])
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
        return DIFFERS
    return next(iter(words), None)


def layout_row(broker: LiveBroker, found: Topic) -> Row:
    """A topic on one broker."""
    return placement_row(
        TopicPlacement(
            cluster_name=broker.cluster_name,
            broker_name=broker.broker_name,
            address=broker.address,
            topic=found,
        )
    )


def placement_row(part: TopicPlacement) -> Row:
    """A topic's part on one broker."""
    found = part.topic
    return {
        "cluster": part.cluster_name,
        "broker": part.broker_name,
        "address": part.address,
        "read_queues": found.read_queue_count,
        "write_queues": found.write_queue_count,
        "permission": permission_word(found.permission),
        "type": message_type_word(found.message_type),
        "attributes": dict(found.attributes),
        "version": found.version,
        "system": found.system,
        "last_stored": moment_text(found, "last_store_time"),
        "unread_messages": found.unread_message_count,
    }


def unknown_layout(broker: LiveBroker) -> Row:
    """A topic on a broker that does not answer."""
    known = layout_row(broker, Topic())
    named = ("cluster", "broker", "address")
    return {name: value if name in named else None for name, value in known.items()}
