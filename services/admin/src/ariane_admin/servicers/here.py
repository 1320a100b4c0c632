"""The servicers without admin's process: they change a cluster, and record nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from google.protobuf.message import Message

from ariane_admin.servicers.clients import ClientServicer
from ariane_admin.servicers.cluster import ClusterServicer
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.servicers.filters import FilterServicer
from ariane_admin.servicers.group.groups import GroupServicer
from ariane_admin.servicers.message.dead_letters import DeadLetterServicer
from ariane_admin.servicers.message.delayed_messages import DelayedMessageServicer
from ariane_admin.servicers.message.messages import MessageServicer
from ariane_admin.servicers.public_errors import ADMIN_ERROR_RULES
from ariane_admin.servicers.rates import RateMemory
from ariane_admin.servicers.replica_sets import ReplicaSetServicer
from ariane_admin.servicers.settings import SettingServicer
from ariane_admin.servicers.sinks import SinkServicer
from ariane_admin.servicers.topics import TopicServicer
from ariane_admin.servicers.transactions import TransactionServicer
from ariane_sdk.translation import error_from_status
from ariane_servicekit import ErrorTranslator, ServiceError, SystemClock
from ariane_servicekit.rpc.error_status import status_of

_Metadata = Sequence[tuple[str, str]]


class Servicers(NamedTuple):
    """Servicers with the interface of stubs: each method takes a request and options of a call."""

    clients: Any
    """Service for live clients."""
    cluster: Any
    """Service for brokers."""
    dead_letters: Any
    """Service for dead letters."""
    delayed: Any
    """Service for delayed messages."""
    filters: Any
    """Service for uploaded filters."""
    groups: Any
    """Service for groups."""
    messages: Any
    """Service for single messages."""
    replica_sets: Any
    """Service for brokers with replicas."""
    settings: Any
    """Service for settings of processes."""
    sinks: Any
    """Service for sinks of exactly-once writes."""
    topics: Any
    """Service for topics."""
    transactions: Any
    """Service for transactions."""


@asynccontextmanager
async def servicers_here(name_servers: str, checkers: Sequence[str]) -> AsyncIterator[Servicers]:
    """Servicers in this process, for the length of a block.

    Args:
        name_servers: "host:port" of each, separated by commas.
        checkers: Transaction checkers, "host:port" each.
    """
    access = ClusterAccess(name_servers, ErrorTranslator(ADMIN_ERROR_RULES))
    await access.start()
    try:
        yield Servicers(
            _Here(ClientServicer(access)),
            _Here(ClusterServicer(access, RateMemory(), SystemClock())),
            _Here(DeadLetterServicer(access)),
            _Here(DelayedMessageServicer(access)),
            _Here(FilterServicer(access)),
            _Here(GroupServicer(access)),
            _Here(MessageServicer(access)),
            _Here(ReplicaSetServicer(access)),
            _Here(SettingServicer(access, checkers)),
            _Here(SinkServicer(access)),
            _Here(TopicServicer(access)),
            _Here(TransactionServicer(access, checkers)),
        )
    finally:
        await access.close()


class _Context:
    """The part of a call's context that servicers use: the metadata."""

    def __init__(self, metadata: _Metadata) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> _Metadata:
        return self._metadata


class _Here:
    """A servicer with the interface of a stub; its refusals become errors of the client."""

    def __init__(self, servicer: object) -> None:
        self._servicer = servicer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._servicer, name)

        async def call(request: Message, metadata: _Metadata = (), **_: object) -> Any:
            try:
                return await method(request, _Context(metadata))
            except ServiceError as error:
                raise error_from_status(status_of(error), peer="") from error

        return call
