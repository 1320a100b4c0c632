"""``GatewayKeyService``: tells gateways the keys of RocketMQ's clients."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from grpc import aio

from ariane.admin.v1 import gateway_key_service_pb2 as key_pb
from ariane.admin.v1.gateway_key_service_pb2_grpc import GatewayKeyServiceServicer
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.users.credential_store import CredentialStore
from ariane_admin.users.rules_publisher import RulesPublisher
from ariane_servicekit import ServiceError, current_call
from ariane_servicekit.database import Database
from ariane_servicekit.security.caller import MemberKind

KEYS_AT_ONCE: Final = 5000
"""Keys of one answer: less than 4 MiB."""


class GatewayKeyServicer(GatewayKeyServiceServicer):
    """Tells keys for as long as a gateway listens.

    Args:
        store: The keys.
        database: The database, whose threads read.
        publisher: Knows of changes.
    """

    def __init__(
        self, store: CredentialStore, database: Database, publisher: RulesPublisher
    ) -> None:
        self._store = store
        self._database = database
        self._publisher = publisher

    async def WatchGatewayKeys(
        self, request: key_pb.WatchGatewayKeysRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[key_pb.WatchGatewayKeysResponse]:
        """Tell keys at once, and after each change."""
        _check_is_gateway()
        latest: list[key_pb.GatewayKey] | None = None
        while not self._publisher.is_closed:
            # Asked for before it is read: a change meanwhile is not missed.
            change = self._publisher.change
            keys = await self._database.call(self._store.gateway_keys)
            if keys == latest:
                yield key_pb.WatchGatewayKeysResponse()
            else:
                for answer in _answers_of(keys):
                    yield answer
                latest = keys
            await self._publisher.wait_for(change)


def _answers_of(keys: Sequence[key_pb.GatewayKey]) -> Iterator[key_pb.WatchGatewayKeysResponse]:
    for begin in range(0, max(1, len(keys)), KEYS_AT_ONCE):
        end = begin + KEYS_AT_ONCE
        yield key_pb.WatchGatewayKeysResponse(keys=keys[begin:end], last=end >= len(keys))


def _check_is_gateway() -> None:
    """Refuse everybody else, also where the setting ``access`` lets everybody in.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    call = current_call()
    if call is not None and call.caller.member_kind is not MemberKind.GATEWAY:
        raise ServiceError(
            ErrorReason.ERROR_REASON_ACCESS_DENIED,
            "keys of clients are for gateways, which show a certificate of the cluster",
        )
