"""Previews: the contents that a deletion would destroy, read without changing anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ariane.admin.v1.lag_service_pb2 import ListQueueLagsRequest
from ariane_admin.asking.questions import questions
from ariane_record.names import retry_topic
from ariane_sdk.errors import RouteNotFound


async def topic_content(
    name_servers: str, topic: str, broker_names: Sequence[str], *, missing_ok: bool
) -> dict[str, Any]:
    """The contents of a topic: the numbers of its brokers, messages and groups.

    Raises:
        RouteNotFound: No broker carries it, and that is not `missing_ok`, or one is away.
        CallError: A broker refused or did not answer.
    """
    gone = {"topic": topic, "brokers": 0, "messages": 0, "groups": 0}
    async with questions(name_servers) as asked:
        reader, client = await asked.access.reader(), asked.doors.client
        try:
            bounds = await reader.bounds(topic, broker_names=broker_names)
        except RouteNotFound as error:
            if error.away_brokers or not missing_ok:
                raise
            return gone
        lags = await client.consumer_lag(topic=topic, broker_names=broker_names)
    return {
        "topic": topic,
        "brokers": len({queue.broker_name for queue in bounds}),
        "messages": sum(end - begin for begin, end in bounds.values()),
        "groups": len({lag.group for lag in lags}),
    }


async def group_content(name_servers: str, group: str) -> dict[str, Any]:
    """The contents of a group: the numbers of its offsets, messages to retry, and dead letters.

    Raises:
        GroupNotFound: No broker knows it.
        CallError: A broker refused or did not answer.
    """
    async with questions(name_servers, complete=True) as asked:
        found = await asked.group(group)
        lags = await asked.lags.ListQueueLags(ListQueueLagsRequest(consumer_group=group))
    return {
        "group": group,
        "members": found.member_count,
        "offsets": len(lags.lags),
        "retry_messages": await message_count(name_servers, retry_topic(group)),
        "dead_letters": found.dead_letter_count,
    }


async def message_count(name_servers: str, topic: str) -> int:
    """The number of messages of a topic; 0 without such a topic.

    Raises:
        RouteNotFound: Brokers that have it are away.
        CallError: A broker refused or did not answer.
    """
    async with questions(name_servers) as asked:
        reader = await asked.access.reader()
        try:
            bounds = await reader.bounds(topic)
        except RouteNotFound as error:
            if error.away_brokers:
                raise
            return 0
        return sum(end - begin for begin, end in bounds.values())
