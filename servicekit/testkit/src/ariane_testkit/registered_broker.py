"""A broker of which there is only what name servers hear: it comes, leaves, and is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from ariane.namesrv.v1.maintenance_service_pb2 import ForgetBrokerRequest
from ariane.namesrv.v1.maintenance_service_pb2_grpc import MaintenanceServiceStub
from ariane.namesrv.v1.registration_service_pb2 import (
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)
from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceStub
from ariane.namesrv.v1.route_pb2 import (
    TOPIC_PERMISSION_READ_WRITE,
    BrokerIdentity,
    TopicRegistration,
)
from ariane_servicekit.running.processes import CLUSTER_NAME
from ariane_servicekit.security.caller import MemberKind
from ariane_testkit.closed_clusters import TESTER, open_blocking_channel

_CALL_S: Final = 10.0

_incarnations = count()


class RegisteredBroker:
    """Broker ``TESTER`` with one topic; who calls it finds nobody."""

    def __init__(self, name_servers: Sequence[str], topic: str, *, ordered: bool = False) -> None:
        self._channels = [open_blocking_channel(at, MemberKind.BROKER) for at in name_servers]
        self._topic = TopicRegistration(
            topic=topic,
            read_queue_count=2,
            write_queue_count=2,
            permission=TOPIC_PERMISSION_READ_WRITE,
            ordered=ordered,
        )
        self._registered: dict[int, str] = {}

    def registers(self, broker_id: int = 0) -> None:
        """Register, as primary or as a replica."""
        incarnation = self._registered[broker_id] = str(next(_incarnations))
        identity = BrokerIdentity(
            cluster_name=CLUSTER_NAME,
            broker_name=TESTER,
            broker_id=broker_id,
            address=f"127.0.0.1:{broker_id + 1}",
        )
        request = RegisterBrokerRequest(
            identity=identity,
            incarnation=incarnation,
            topics=[self._topic],
            topics_version=1,
            writable=True,
        )
        for channel in self._channels:
            RegistrationServiceStub(channel).RegisterBroker(request, timeout=_CALL_S)

    def leaves(self) -> None:
        """Unregister: it is away."""
        while self._registered:
            broker_id, incarnation = self._registered.popitem()
            request = UnregisterBrokerRequest(
                cluster_name=CLUSTER_NAME,
                broker_name=TESTER,
                broker_id=broker_id,
                incarnation=incarnation,
            )
            for channel in self._channels:
                RegistrationServiceStub(channel).UnregisterBroker(request, timeout=_CALL_S)

    def is_forgotten(self) -> None:
        """Have an operator say that it does not come back."""
        request = ForgetBrokerRequest(cluster_name=CLUSTER_NAME, broker_name=TESTER)
        for channel in self._channels:
            MaintenanceServiceStub(channel).ForgetBroker(request, timeout=_CALL_S)

    def close(self) -> None:
        """Leave for good."""
        self.leaves()
        self.is_forgotten()
        for channel in self._channels:
            channel.close()
