"""The console's client of the API, which it calls on behalf of a browser's user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from grpc import aio

from ariane.admin.v1.alert_service_pb2_grpc import AlertServiceStub
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.admin.v1.cluster_service_pb2_grpc import ClusterServiceStub
from ariane.admin.v1.dead_letter_service_pb2_grpc import DeadLetterServiceStub
from ariane.admin.v1.definition_service_pb2_grpc import DefinitionServiceStub
from ariane.admin.v1.delayed_message_service_pb2_grpc import DelayedMessageServiceStub
from ariane.admin.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.admin.v1.history_service_pb2_grpc import HistoryServiceStub
from ariane.admin.v1.lag_service_pb2_grpc import LagServiceStub
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceStub
from ariane.admin.v1.quota_service_pb2_grpc import QuotaServiceStub
from ariane.admin.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane.admin.v1.setting_service_pb2_grpc import SettingServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.admin.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_admin.audit.caller import ORIGIN_KEY, PROOF_KEY
from ariane_admin.console.blocks import Notice
from ariane_servicekit.security.identity.identify import ACTING_KEY

CALL_S_MAX: Final = 15.0
"""Seconds that the console waits for an answer, unless a change says otherwise."""

_Answer = TypeVar("_Answer", bound=Message)


class Api:
    """Stubs to admin itself.

    Args:
        channel: To the address that admin listens on.
        proof: The secret with which admin accepts the browser's address in the metadata.
    """

    def __init__(self, channel: aio.Channel, proof: str) -> None:
        self._proof = proof
        self.alerts = AlertServiceStub(channel)
        self.audit = AuditServiceStub(channel)
        self.clients = ClientServiceStub(channel)
        self.cluster = ClusterServiceStub(channel)
        self.dead_letters = DeadLetterServiceStub(channel)
        self.definitions = DefinitionServiceStub(channel)
        self.delayed = DelayedMessageServiceStub(channel)
        self.filters = FilterServiceStub(channel)
        self.groups = GroupServiceStub(channel)
        self.history = HistoryServiceStub(channel)
        self.lags = LagServiceStub(channel)
        self.messages = MessageServiceStub(channel)
        self.quotas = QuotaServiceStub(channel)
        self.replica_sets = ReplicaSetServiceStub(channel)
        self.settings = SettingServiceStub(channel)
        self.topics = TopicServiceStub(channel)
        self.transactions = TransactionServiceStub(channel)

    async def call(
        self,
        method: Callable[..., Awaitable[_Answer]],
        request: Any,
        origin: str,
        *,
        acting_for: str = "",
        within_s: float = CALL_S_MAX,
    ) -> _Answer:
        """The answer of a method.

        Args:
            method: A method of a stub.
            request: Its request.
            origin: The browser's address.
            acting_for: Who has signed in, as ``acting_text`` says it; empty for a stranger.
            within_s: Seconds that it may take.

        Raises:
            AioRpcError: The error of admin.
        """
        metadata = [(ORIGIN_KEY, origin), (PROOF_KEY, self._proof)]
        if acting_for:
            metadata.append((ACTING_KEY, acting_for))
        return await method(request, metadata=tuple(metadata), timeout=within_s)


class Asker:
    """The API for one request of a browser.

    Args:
        api: The stubs.
        origin: The browser's address.
        within_s: Seconds that each call may take.
        acting_for: Who has signed in; empty for a stranger.
    """

    def __init__(
        self, api: Api, origin: str, within_s: float = CALL_S_MAX, acting_for: str = ""
    ) -> None:
        self.api = api
        """The stubs."""
        self._origin = origin
        self._acting_for = acting_for
        self._within_s = within_s

    async def __call__(self, method: Callable[..., Awaitable[_Answer]], request: Any) -> _Answer:
        """The answer of a method.

        Raises:
            AioRpcError: The error of admin.
        """
        return await self.api.call(
            method,
            request,
            self._origin,
            acting_for=self._acting_for,
            within_s=self._within_s,
        )


def silence(answer: Any) -> Sequence[Notice]:
    """The notice above an incomplete answer, which names silent brokers."""
    brokers = getattr(answer, "silent_brokers", ())
    processes = getattr(answer, "silent_processes", ())
    servers = getattr(answer, "silent_servers", ())
    names = [each.broker_name for each in brokers]
    names += [f"{each.process.service} {each.process.address}" for each in processes]
    names += [f"FilterServer {each.address}" for each in servers]
    if not names:
        return ()
    cause = next(each.error.message for each in (*brokers, *processes, *servers))
    return (Notice(f"This is a part: {', '.join(names)} did not answer. {cause}", "warn"),)
