"""Who may change filters: users with the right on them, and unless access is closed, this machine.

A filter is foreign code. What everybody may do where access is open or learned, nobody may do here
from another machine. Methods count as changes if their access rule in the contract is to create,
update or delete: so new methods are protected without further code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.message import Message
from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit import RpcService, ServiceError
from ariane_servicekit.security.gate.asking import has_its_rights
from ariane_servicekit.security.identity.logins import is_local
from ariane_servicekit.security.rules.method_rules import changes
from ariane_wire import Identity

_Context = aio.ServicerContext[Any, Any]
_Behavior = Callable[[Any, _Context], Awaitable[Message]]


def for_known_changers(service: RpcService) -> RpcService:
    """The service, whose changing methods refuse callers from elsewhere that nobody has judged."""
    behaviors = {
        method.name: _guarded(getattr(service.servicer, method.name))
        for method in service.descriptor.methods
        if changes(method)
    }
    return replace(service, servicer=_GuardedServicer(service.servicer, behaviors))


def _guarded(behavior: _Behavior) -> _Behavior:
    async def run(request: Any, context: _Context) -> Message:
        _check(context)
        return await behavior(request, context)

    return run


def _check(context: _Context) -> None:
    """Refuse a caller of another machine who is not known.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    identity: Identity = context.identity()  # type: ignore[attr-defined]  # Of our transport.
    if has_its_rights() or (is_local(identity.peer) and not identity.is_proxied):
        return
    raise ServiceError(
        ErrorReason.ERROR_REASON_ACCESS_DENIED,
        "from another machine, filters are tried and changed by users with the right on them only, "
        "and nobody is known here: set access=closed, or call from the machine of the FilterServer",
    )


class _GuardedServicer:
    """A servicer with some methods replaced."""

    def __init__(self, servicer: object, behaviors: Mapping[str, _Behavior]) -> None:
        self._servicer = servicer
        self._behaviors = behaviors

    def __getattr__(self, name: str) -> Any:
        found = self._behaviors.get(name)
        return getattr(self._servicer, name) if found is None else found
