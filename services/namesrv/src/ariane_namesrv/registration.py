"""A broker's registration as plain values, and its routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final, NamedTuple

PRIMARY_ID: Final = 0
"""The broker id of a primary; replicas have others."""


class Permission(IntFlag):
    """What clients may do with a topic on a broker. RocketMQ's numbers."""

    NONE = 0
    WRITE = 2
    READ = 4


class BrokerKey(NamedTuple):
    """The name of one broker process. Sorts as lists of brokers do."""

    cluster_name: str
    broker_name: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """A topic's queues and settings on one broker."""

    read_queue_count: int
    write_queue_count: int
    permission: Permission
    version: int = 0
    ordered: bool = False
    """Whether messages stay in order within their message group."""


class RefusedTopic(NamedTuple):
    """A topic that a broker announced but that is in no route, with the cause."""

    topic: str
    cause: str


@dataclass(frozen=True, slots=True)
class Registration:
    """One broker as it announces itself."""

    key: BrokerKey
    address: str
    incarnation: str
    """Random, drawn by the process at its start."""
    topics: Mapping[str, TopicLayout]
    topics_version: int
    silence_s_max: float
    zone: str = ""
    writable: bool = True
    filter_server_addresses: Sequence[str] = ()
    refused_topic_count: int = 0
    """Topics of the broker that are in no route."""
    refused_topics: Sequence[RefusedTopic] = ()
    """The first of these."""
    epoch: int = 0
    """The epoch in which it is primary; 0 for a broker without replicas."""
    replica_addresses: Mapping[int, str] = field(default_factory=dict)
    """Addresses of its replicas, by broker id."""


@dataclass(slots=True)
class BrokerEntry:
    """A registered broker in the table."""

    registration: Registration
    heard_at_s: float
    """When it was last heard of, by monotonic time; decides whether it is alive."""
    heard_at_ms: int
    """The same by the wall clock, for people."""

    def is_live(self, now_s: float) -> bool:
        """Whether its silence is within the time that it announced."""
        return now_s - self.heard_at_s <= self.registration.silence_s_max


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """A topic's queues on the brokers of one name: a primary, its replicas, or both."""

    cluster_name: str
    broker_name: str
    addresses: Mapping[int, str]
    """By broker id."""
    read_queue_count: int
    write_queue_count: int
    permission: Permission
    zone: str
    filter_server_addresses: Sequence[str]
    ordered: bool = False
    """Whether messages stay in order within their message group."""
