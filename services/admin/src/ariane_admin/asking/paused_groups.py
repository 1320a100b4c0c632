"""Which groups an operator has paused, and on which brokers: their members get nothing."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ariane.broker.v1.group_service_pb2 import ListConsumerGroupsRequest
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import ClusterDoors, NamedBroker, all_pages
from ariane_sdk import LiveBroker


async def paused_groups_at(doors: ClusterDoors, broker: NamedBroker) -> list[str]:
    """The groups that are paused on a broker.

    Raises:
        CallError: The broker refused or did not answer.
    """
    stub = doors.groups(broker.address)
    asked = ListConsumerGroupsRequest()
    groups = await all_pages(broker, stub.ListConsumerGroups, asked, lambda page: page.groups)
    return [group.consumer_group for group in groups if not group.consume_enabled]


async def paused_groups(doors: ClusterDoors, answers: Answers) -> Mapping[str, Sequence[str]]:
    """The brokers on which each paused group is paused; a group that is not has no entry.

    Raises:
        CallError: As ``Answers.ask``.
    """

    async def at(broker: LiveBroker) -> tuple[str, list[str]]:
        return broker.broker_name, await paused_groups_at(doors, broker)

    found: dict[str, list[str]] = defaultdict(list)
    for broker_name, names in await answers.ask(at):
        for name in names:
            found[name].append(broker_name)
    return {name: sorted(brokers) for name, brokers in found.items()}


def pause_warning(group: str, brokers: Sequence[str]) -> str:
    """What a command says of a group that is paused on some brokers."""
    return (
        f"group {group} is paused on {', '.join(brokers)}: its members get no messages from there"
        f" until ariane group resume {shlex.quote(group)}"
    )
