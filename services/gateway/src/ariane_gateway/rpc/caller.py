"""Who calls, and the names in requests."""

from __future__ import annotations

from typing import NamedTuple

from apache.rocketmq.v2.definition_pb2 import Code, Resource
from ariane_gateway.rpc.statuses import Illegal


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


def topic_of(resource: Resource) -> str:
    """The topic that a resource names.

    Raises:
        Illegal: ILLEGAL_TOPIC.
    """
    if not resource.name.strip():
        raise Illegal(Code.ILLEGAL_TOPIC, "the topic is missing")
    return _in_namespace(resource)


def group_of(resource: Resource) -> str:
    """The consumer group that a resource names.

    Raises:
        Illegal: ILLEGAL_CONSUMER_GROUP.
    """
    if not resource.name.strip():
        raise Illegal(Code.ILLEGAL_CONSUMER_GROUP, "the consumer group is missing")
    return _in_namespace(resource)


def _in_namespace(resource: Resource) -> str:
    """The name within its namespace, as RocketMQ writes it."""
    if resource.resource_namespace:
        return f"{resource.resource_namespace}%{resource.name}"
    return resource.name
