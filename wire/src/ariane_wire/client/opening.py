"""Before the calls of a channel, on a new connection: who is there, and who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from grpc import StatusCode

from ariane_wire.client import callables

if TYPE_CHECKING:
    import asyncio

    from ariane_wire.client.call import ClientCall
    from ariane_wire.client.channel import Channel
    from ariane_wire.client.connection import ClientConnection
    from ariane_wire.transport.certificates import Certificate

CheckServer: TypeAlias = "Callable[[Certificate], None]"
"""Raises where the certificate is not that of the server that is meant; callers see the text. What
it raises is why there is no connection, as with ``Opening``."""


class OpenConnection(Protocol):
    """A connection that is not yet its channel's."""

    certificate: Certificate | None
    """The server's; None in plain text."""

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
    ) -> callables.UnaryUnary:
        """A method that is called on this connection."""
        ...


Opening: TypeAlias = Callable[[OpenConnection], Awaitable[None]]
"""Makes calls on a new connection; what it raises is why there is none. A ``CallFailed`` with
UNAUTHENTICATED, PERMISSION_DENIED or UNIMPLEMENTED is what the calls that wait fail with."""

REFUSALS = frozenset(
    {StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED, StatusCode.UNIMPLEMENTED}
)


class OpeningConnection:
    """One; stands for the channel where calls are made."""

    def __init__(
        self, channel: Channel, connection: ClientConnection, certificate: Certificate | None
    ) -> None:
        self.certificate = certificate
        self.compression = channel.compression
        self.options = channel.options
        self.target = channel.target
        self._channel = channel
        self._connection = connection

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The channel's."""
        return self._channel.loop

    def start(self, call: ClientCall, timeout_s: float | None) -> None:
        """Begin a call here."""
        if not self._channel.set_deadline(call, timeout_s):
            return
        if self._connection.takes_calls:
            call.begin(self._connection)
            return
        call.never_processed = True
        text = self._connection.ended or "the server goes away"
        call.finish(StatusCode.UNAVAILABLE, text)

    def forget(self, call: ClientCall) -> None:
        """No call waits here."""

    def abandon(self, call: ClientCall) -> None:
        """Cancel a call that nobody holds any more."""
        self._channel.abandon(call)

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
    ) -> callables.UnaryUnary:
        """See ``OpenConnection``."""
        made = self._channel.method(0, method, request_serializer, response_deserializer)
        made.interceptors = []
        return callables.UnaryUnary(cast("Channel", self), made)
