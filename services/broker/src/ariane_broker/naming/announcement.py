"""The announcement of the broker to name servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from ariane.namesrv.v1 import route_pb2 as route_pb
from ariane.namesrv.v1.registration_service_pb2 import RegisterBrokerRequest
from ariane_broker.settings import BrokerSettings
from ariane_broker.topics.topic_table import Permission, TopicConfig, TopicMessageType, TopicTable
from ariane_servicekit import Address

ANNOUNCED_BYTES_MAX: Final = 4 << 20
"""Bytes of an announcement: name servers accept 5 MiB (``receive_bytes_max``), and refuse a larger
one as a whole."""

PRIMARY_ID: Final = 0
"""The broker id of primaries in routes."""

_TOPIC_BYTES_BESIDE: Final = 4
"""Tag and length in front of a topic."""

PERMISSIONS: Final = {
    Permission.NONE: route_pb.TOPIC_PERMISSION_NONE,
    Permission.WRITE: route_pb.TOPIC_PERMISSION_WRITE,
    Permission.READ: route_pb.TOPIC_PERMISSION_READ,
    Permission.READ_WRITE: route_pb.TOPIC_PERMISSION_READ_WRITE,
}


def permission_value(permission: Permission) -> route_pb.TopicPermission.ValueType:
    """A permission as the contract's value; further bits are only RocketMQ's."""
    return PERMISSIONS[permission & Permission.READ_WRITE]


class BrokerAnnouncement:
    """The broker's identity, topics and replicas, for name servers."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: TopicTable,
        incarnation: str,
        *,
        epoch: int = 0,
        broker_id: int = PRIMARY_ID,
        bytes_max: int = ANNOUNCED_BYTES_MAX,
    ) -> None:
        self._bytes_max = bytes_max
        self._settings = settings
        self._topics = topics
        self._address = settings.advertised_address or settings.listen
        self._writable = True
        self._filter_servers: Sequence[str] = ()
        self._own_changes = 0
        self._epoch = epoch
        self._broker_id = broker_id
        self._replica_addresses: Mapping[int, str] = {}
        self.incarnation = incarnation
        """Drawn by this process; distinguishes a restart from a second broker."""

    @property
    def version(self) -> int:
        """Grows whenever name servers must be updated."""
        return self._topics.version + self._own_changes

    @property
    def writable(self) -> bool:
        """Whether the broker accepts messages at all."""
        return self._writable

    @writable.setter
    def writable(self, writable: bool) -> None:
        if writable != self._writable:
            self._writable = writable
            self._own_changes += 1

    @property
    def filter_server_addresses(self) -> Sequence[str]:
        """FilterServers beside the broker."""
        return self._filter_servers

    @filter_server_addresses.setter
    def filter_server_addresses(self, addresses: Sequence[str]) -> None:
        if addresses != self._filter_servers:
            self._filter_servers = addresses
            self._own_changes += 1

    @property
    def replica_addresses(self) -> Mapping[int, str]:
        """Addresses of replicas, by the broker ids of routes."""
        return self._replica_addresses

    @replica_addresses.setter
    def replica_addresses(self, addresses: Mapping[int, str]) -> None:
        if addresses != self._replica_addresses:
            self._replica_addresses = addresses
            self._own_changes += 1

    @property
    def address(self) -> Address:
        """The broker's address for clients."""
        return self._address

    def listen_on(self, address: Address) -> None:
        """Announce this address, whose port is known now."""
        if self._settings.advertised_address is None:
            self._address = address

    @property
    def identity(self) -> route_pb.BrokerIdentity:
        """The identity of the broker, with its address."""
        return route_pb.BrokerIdentity(
            cluster_name=self._settings.cluster_name,
            broker_name=self._settings.broker_name,
            # For a primary the id of routes, independent of its id in its set.
            broker_id=self._broker_id,
            address=str(self._address),
            zone=self._settings.zone,
        )

    def registration(self) -> RegisterBrokerRequest:
        """The whole request; beyond the size limit the youngest topics are left out."""
        request = RegisterBrokerRequest(
            identity=self.identity,
            incarnation=self.incarnation,
            topics=map(_topic_registration, self._topics.all()),
            topics_version=self.version,
            writable=self._writable,
            filter_server_addresses=self._filter_servers,
            epoch=self._epoch,
            replica_addresses=self._replica_addresses,
        )
        if request.ByteSize() > self._bytes_max:
            ranked = sorted(request.topics, key=lambda topic: (topic.version, topic.topic))
            ends = accumulate(topic.ByteSize() + _TOPIC_BYTES_BESIDE for topic in ranked)
            fitting = sum(end <= self._bytes_max for end in ends)
            del request.topics[:]
            request.topics.extend(ranked[:fitting])
            request.unannounced_topic_count = len(ranked) - fitting
        return request


def _topic_registration(config: TopicConfig) -> route_pb.TopicRegistration:
    return route_pb.TopicRegistration(
        topic=config.topic,
        read_queue_count=config.read_queue_count,
        write_queue_count=config.write_queue_count,
        permission=permission_value(config.permission),
        version=config.version,
        ordered=config.message_type is TopicMessageType.FIFO,
    )
