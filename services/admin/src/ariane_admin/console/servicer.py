"""``ConsoleService``: links by which users sign in to the console."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grpc import aio

from ariane.admin.v1 import console_service_pb2 as console_pb
from ariane.admin.v1.console_service_pb2_grpc import ConsoleServiceServicer
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.console.entrance import SIGN_IN
from ariane_admin.console.room import ConsoleRoom
from ariane_admin.console.sessions import LINK_S_MAX
from ariane_servicekit import ServiceError, feature_not_available, get_logger
from ariane_servicekit.rpc.calls import current_caller
from ariane_servicekit.security.caller import CallerKind

_log = get_logger(__name__)


class ConsoleServicer(ConsoleServiceServicer):
    """Draws links of one console."""

    def __init__(self, console: ConsoleRoom) -> None:
        self._console = console

    async def CreateSignInLink(
        self,
        request: console_pb.CreateSignInLinkRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> console_pb.CreateSignInLinkResponse:
        """Draw a link for the caller."""
        caller = current_caller()
        if caller is None or caller.kind is not CallerKind.USER:
            raise ServiceError(
                ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
                "the caller has not proved to be a user, and only users sign in",
            )
        if caller.acting is not None:
            # It may act for the user in calls, and would go on by a session of its own.
            raise ServiceError(
                ErrorReason.ERROR_REASON_ACCESS_DENIED, f"{caller.acting} signs nobody in"
            )
        if caller.scope is not None:
            raise ServiceError(
                ErrorReason.ERROR_REASON_ACCESS_DENIED, "a delegated key signs nobody in"
            )
        if not self._console.origin or not self._console.signs_in:
            raise feature_not_available("CreateSignInLink, without a console over TLS,")
        shown = context.identity().certificate  # type: ignore[attr-defined]  # Of our transport.
        if shown is not None and not caller.ends_ms:
            caller = replace(caller, ends_ms=int(shown.ends_at * 1000))
        token = self._console.sessions.draw_link(caller)
        _log.info("console_link_drawn", user=caller.name, address=caller.address)
        answer = console_pb.CreateSignInLinkResponse(
            link=f"{self._console.origin}{SIGN_IN}#{token}"
        )
        answer.lifetime.FromMilliseconds(round(LINK_S_MAX * 1000))
        return answer
