"""Asking who is there, once on each connection in plain text: no certificate says so.

An address is used again: a broker moves, and another one, perhaps of another cluster, listens where
it was. Without this, it would be given messages and offsets that are not its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.common.v1.process_service_pb2 import (
    DESCRIPTOR,
    GetProcessStateRequest,
    GetProcessStateResponse,
)
from ariane_sdk.security import Expected, ServerName
from ariane_wire import OpenConnection, Opening

_METHOD: Final = f"/{DESCRIPTOR.services_by_name['ProcessService'].full_name}/GetProcessState"
_CALL_S: Final = 10.0

_SILENT: Final = frozenset(
    {StatusCode.UNIMPLEMENTED, StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED}
)
"""Statuses of a process that does not say who it is: it is none of ours, or will refuse all calls
of this client."""


class Greeting:
    """Asks on each new connection of a channel who is there."""

    def __init__(
        self,
        expected: Callable[[], Expected],
        shown: Callable[[ServerName], None] = lambda _: None,
        before: Opening | None = None,
    ) -> None:
        """Ask nothing yet.

        Args:
            expected: Says which process must be there; asked for each connection.
            shown: Called with the process that is there, if it is the right one.
            before: Makes calls before, such as a login.
        """
        self._expected = expected
        self._shown = shown
        self._before = before

    async def __call__(self, connection: OpenConnection) -> None:
        """Ask who is there.

        Raises:
            ConnectionError: It is another process than expected.
            AioRpcError: It does not answer.
        """
        if self._before is not None:
            await self._before(connection)
        meant = self._expected()
        if meant.kinds and not meant.name:
            return  # Any of a kind will do; a process of another kind refuses the calls itself.
        ask = connection.unary_unary(
            _METHOD, GetProcessStateRequest.SerializeToString, GetProcessStateResponse.FromString
        )
        try:
            answer: GetProcessStateResponse = await ask(GetProcessStateRequest(), timeout=_CALL_S)
        except AioRpcError as error:
            if error.code() not in _SILENT:
                raise
            return
        state = answer.state
        stated = ServerName(state.cluster_name, state.service, state.member_name)
        self._expected().check_stated(stated)
        self._shown(stated)
