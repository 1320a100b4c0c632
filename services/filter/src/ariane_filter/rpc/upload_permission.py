"""The permission to change filters: callers with the upload token have it, if one is set.

The token is in the metadata ``authorization``, as "Bearer TOKEN", like later credentials of
callers. Methods count as changes if their access rule in the contract is to create, update or
delete. So new methods are protected without further code.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from google.protobuf.message import Message
from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit import RpcService, ServiceError, get_logger
from ariane_servicekit.security.method_rules import changes

AUTHORIZATION_KEY: Final = "authorization"
"""Metadata key, as in HTTP."""

_SCHEME: Final = "bearer"

_Context = aio.ServicerContext[Any, Any]
_Behavior = Callable[[Any, _Context], Awaitable[Message]]

_log = get_logger(__name__)


class UploadPermission:
    """Admits changes of a service that have the token."""

    def __init__(self, token: str) -> None:
        """Require this token. If it is empty, every caller may make the permitted changes."""
        self._token = token.encode()

    def guarded(self, service: RpcService) -> RpcService:
        """The service, whose changing methods need the token."""
        if not self._token:
            return service
        behaviors = {
            method.name: self._guarded(method.full_name, getattr(service.servicer, method.name))
            for method in service.descriptor.methods
            if changes(method)
        }
        return replace(service, servicer=_GuardedServicer(service.servicer, behaviors))

    def _guarded(self, method: str, behavior: _Behavior) -> _Behavior:
        async def run(request: Any, context: _Context) -> Message:
            self._check(method, context)
            return await behavior(request, context)

        return run

    def _check(self, method: str, context: _Context) -> None:
        """Refuse a caller without the token, or with several values.

        Raises:
            ServiceError: ACCESS_DENIED.
        """
        said = [
            value if isinstance(value, str) else value.decode("utf-8", "replace")
            for key, value in context.invocation_metadata() or ()
            if key == AUTHORIZATION_KEY
        ]
        scheme, _, token = said[0].partition(" ") if len(said) == 1 else ("", "", "")
        # The time of the comparison does not depend on the token.
        if scheme.lower() == _SCHEME and hmac.compare_digest(token.encode(), self._token):
            return
        cause = "says another token" if said else "says none"
        _log.warning("filter_change_refused", method=method, peer=context.peer(), cause=cause)
        raise ServiceError(
            ErrorReason.ERROR_REASON_ACCESS_DENIED,
            "this FilterServer tries and changes filters for holders of its upload token only, and "
            f"the caller {cause}; ariane filter says it by --token-file, the console in its form",
            {"cause": cause},
        )


class _GuardedServicer:
    """A servicer with some methods replaced."""

    def __init__(self, servicer: object, behaviors: Mapping[str, _Behavior]) -> None:
        self._servicer = servicer
        self._behaviors = behaviors

    def __getattr__(self, name: str) -> Any:
        found = self._behaviors.get(name)
        return getattr(self._servicer, name) if found is None else found
