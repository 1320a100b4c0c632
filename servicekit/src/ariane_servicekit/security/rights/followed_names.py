"""Names of the system, where rights differ: what they follow, and which patterns fit them."""

from __future__ import annotations

from typing import Final

from ariane.common.v1 import access_pb2 as access
from ariane_record.names import (
    DEAD_LETTER_PREFIX,
    REPLY_SUFFIX,
    RETRY_PREFIX,
    TRACE_TOPIC,
    is_system_group,
    is_system_topic,
)

VERSION_MARK: Final = "@"
"""Between a filter and its version; no filter's name has it."""

_OF_GROUP: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


def judged(action: int, resource: int, name: str) -> tuple[int, int, str]:
    """Return what is judged when somebody wants to do something: retry topics follow their group.

    Who may subscribe for a group reads its retry topic and its dead letters. To send to them is to
    change the group: that is a redrive. A version of a filter is the filter.
    """
    if resource == access.RESOURCE_FILTER:
        return action, resource, name.partition(VERSION_MARK)[0]
    if resource == access.RESOURCE_TOPIC:
        for prefix in _OF_GROUP:
            if name.startswith(prefix):
                followed = access.ACTION_UPDATE if action == access.ACTION_PUBLISH else action
                return followed, access.RESOURCE_GROUP, name[len(prefix) :]
    return action, resource, name


def is_for_all(action: int, resource: int, name: str) -> bool:
    """Whether every user may do something: write traces, and answer requests."""
    return (
        action == access.ACTION_PUBLISH
        and resource == access.RESOURCE_TOPIC
        and (name == TRACE_TOPIC or name.endswith(REPLY_SUFFIX))
    )


def is_of_system(resource: int, name: str) -> bool:
    """Whether only an entry with the whole name fits."""
    if resource == access.RESOURCE_TOPIC:
        return is_system_topic(name) or name.endswith(REPLY_SUFFIX)
    return resource == access.RESOURCE_GROUP and is_system_group(name)
