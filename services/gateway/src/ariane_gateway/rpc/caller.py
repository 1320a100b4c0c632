"""Who calls, and the names in requests.

A topic is told by its name alone, as by RocketMQ's proxy: the namespace of a resource is no part of
it. Names with ``%`` and ``|`` go to the brokers: they make none, but may have one in a store that
was RocketMQ's.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from apache.rocketmq.v2.definition_pb2 import Code, Resource
from ariane_gateway.rpc.statuses import Illegal
from ariane_record.names import (
    DEAD_LETTER_PREFIX,
    GROUP_NAME_LENGTH_MAX,
    RETRY_PREFIX,
    TOPIC_NAME_LENGTH_MAX,
    is_system_group,
    is_system_topic,
)

NAMESPACE_LENGTH_MAX: Final = 255
_SPELLING: Final = re.compile(r"[%|A-Za-z0-9_-]+")


class Caller(NamedTuple):
    """The client of a call."""

    client_id: str
    """Its id."""
    language: str
    """What it is written in, as it says."""
    version: str
    """The version of its library."""
    address: str
    """Where it calls from."""
    time_s: float
    """How long it waits for the answer, in seconds."""
    user: str = ""
    """The user that it has signed as; empty where nobody asks."""
    access_key: str = ""
    """The key that it has signed with, likewise."""

    @property
    def identity(self) -> tuple[str, str, str, str, str]:
        """What the client table knows it by: id, language, version, address, user."""
        return *self[:4], self.user


@lru_cache(maxsize=1024)
def topic_named(name: str) -> str:
    """A topic's name, by the rules of RocketMQ's proxy.

    Raises:
        Illegal: ILLEGAL_TOPIC.
    """
    if not name.strip():
        raise Illegal(Code.ILLEGAL_TOPIC, "the topic is missing")
    _check_spelling(Code.ILLEGAL_TOPIC, "topic", name, TOPIC_NAME_LENGTH_MAX)
    if is_system_topic(name) and not name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        raise Illegal(Code.ILLEGAL_TOPIC, f"topic {name!r} belongs to the system")
    return name


@lru_cache(maxsize=1024)
def group_named(name: str) -> str:
    """A consumer group's name, by the rules of RocketMQ's proxy.

    Raises:
        Illegal: ILLEGAL_CONSUMER_GROUP.
    """
    if not name.strip():
        raise Illegal(Code.ILLEGAL_CONSUMER_GROUP, "the consumer group is missing")
    _check_spelling(Code.ILLEGAL_CONSUMER_GROUP, "group", name, GROUP_NAME_LENGTH_MAX)
    if is_system_group(name):
        raise Illegal(Code.ILLEGAL_CONSUMER_GROUP, f"group {name!r} belongs to the system")
    return name


def topic_of(resource: Resource) -> str:
    """The topic that a resource names, whatever its namespace.

    Raises:
        Illegal: ILLEGAL_TOPIC.
    """
    _check_namespace(Code.ILLEGAL_TOPIC, resource)
    return topic_named(resource.name)


def group_of(resource: Resource) -> str:
    """The consumer group that a resource names, whatever its namespace.

    Raises:
        Illegal: ILLEGAL_CONSUMER_GROUP.
    """
    _check_namespace(Code.ILLEGAL_CONSUMER_GROUP, resource)
    return group_named(resource.name)


def _check_namespace(code: Code.ValueType, resource: Resource) -> None:
    """Refuse a namespace that no one has: answers repeat it with each queue and message."""
    if len(resource.resource_namespace) > NAMESPACE_LENGTH_MAX:
        raise Illegal(code, f"a namespace has at most {NAMESPACE_LENGTH_MAX} characters")


def _check_spelling(code: Code.ValueType, kind: str, name: str, length_max: int) -> None:
    if len(name) > length_max or _SPELLING.fullmatch(name) is None:
        raise Illegal(
            code,
            f"{kind} {name!r:.140}: 1 to {length_max} characters of A-Z a-z 0-9 _ - % and |",
        )
