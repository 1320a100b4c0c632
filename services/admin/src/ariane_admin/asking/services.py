"""The services that answer operators: those of an admin, or the same servicers in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ariane_admin.asking.admin_service import ADMIN_SECONDS_MAX, own_name
from ariane_admin.asking.cluster_doors import answer_of

if TYPE_CHECKING:
    from grpc.aio import Channel

    from ariane.admin.v1.client_service_pb2_grpc import ClientServiceAsyncStub
    from ariane.admin.v1.cluster_service_pb2_grpc import ClusterServiceAsyncStub
    from ariane.admin.v1.dead_letter_service_pb2_grpc import DeadLetterServiceAsyncStub
    from ariane.admin.v1.delayed_message_service_pb2_grpc import DelayedMessageServiceAsyncStub
    from ariane.admin.v1.filter_service_pb2_grpc import FilterServiceAsyncStub
    from ariane.admin.v1.group_service_pb2_grpc import GroupServiceAsyncStub
    from ariane.admin.v1.lag_service_pb2_grpc import LagServiceAsyncStub
    from ariane.admin.v1.message_service_pb2_grpc import MessageServiceAsyncStub
    from ariane.admin.v1.replica_set_service_pb2_grpc import ReplicaSetServiceAsyncStub
    from ariane.admin.v1.setting_service_pb2_grpc import SettingServiceAsyncStub
    from ariane.admin.v1.sink_service_pb2_grpc import SinkServiceAsyncStub
    from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceAsyncStub
    from ariane.admin.v1.transaction_service_pb2_grpc import TransactionServiceAsyncStub

SERVICES: Final = {
    "clients": "Client",
    "cluster": "Cluster",
    "dead_letters": "DeadLetter",
    "delayed": "DelayedMessage",
    "filters": "Filter",
    "groups": "Group",
    "lags": "Lag",
    "messages": "Message",
    "replica_sets": "ReplicaSet",
    "settings": "Setting",
    "sinks": "Sink",
    "topics": "Topic",
    "transactions": "Transaction",
}
"""The names of ``Services``, and what their services of the contract are called."""

_Answer = TypeVar("_Answer")


class Services:
    """One client for each service, made when it is first asked for: each takes time to load."""

    peer: str
    """The called process, for the text of errors; empty for this process."""
    clients: ClientServiceAsyncStub
    """Service for live clients."""
    cluster: ClusterServiceAsyncStub
    """Service for brokers."""
    dead_letters: DeadLetterServiceAsyncStub
    """Service for dead letters."""
    delayed: DelayedMessageServiceAsyncStub
    """Service for delayed messages."""
    filters: FilterServiceAsyncStub
    """Service for uploaded filters."""
    groups: GroupServiceAsyncStub
    """Service for groups."""
    lags: LagServiceAsyncStub
    """Service for backlogs."""
    messages: MessageServiceAsyncStub
    """Service for single messages."""
    replica_sets: ReplicaSetServiceAsyncStub
    """Service for brokers with replicas."""
    settings: SettingServiceAsyncStub
    """Service for settings of processes."""
    sinks: SinkServiceAsyncStub
    """Service for sinks of exactly-once writes."""
    topics: TopicServiceAsyncStub
    """Service for topics."""
    transactions: TransactionServiceAsyncStub
    """Service for transactions."""

    def __init__(self, peer: str, make: Callable[[str], Any]) -> None:
        """Make none yet; ``make`` makes one by its name in ``SERVICES``."""
        self.peer = peer
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name not in SERVICES:
            raise AttributeError(name)
        service = self._make(name)
        setattr(self, name, service)
        return service

    async def ask(
        self,
        method: Callable[..., Awaitable[_Answer]],
        request: Any,
        *,
        seconds_max: float = ADMIN_SECONDS_MAX,
    ) -> _Answer:
        """Call a method, and return its answer.

        Args:
            method: A method of one of the services.
            request: Its request.
            seconds_max: How long admin may take.

        Raises:
            CallError: The error of the service.
        """
        call = method(request, timeout=seconds_max, metadata=own_name())
        return await answer_of(call, self.peer)


def services_at(channel: Channel, peer: str) -> Services:
    """The services of an admin."""

    def make(name: str) -> Any:
        title = SERVICES[name]
        words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in title)
        stubs = import_module(f"ariane.admin.v1.{words[1:]}_service_pb2_grpc")
        return getattr(stubs, f"{title}ServiceStub")(channel)

    return Services(peer, make)
