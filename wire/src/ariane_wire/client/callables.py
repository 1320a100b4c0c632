"""What stubs call: a method of a service on a channel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from ariane_wire.client import stream_call
from ariane_wire.client.call import ClientCall
from ariane_wire.client.intercepting import intercepted
from ariane_wire.client.method import Method
from ariane_wire.client.request_stream import Requests
from ariane_wire.client.unary_call import UnaryUnaryCall
from ariane_wire.errors import CallFailed
from ariane_wire.protocol.compression import NAMES
from ariane_wire.protocol.headers.metadata import metadata_octets

if TYPE_CHECKING:
    from ariane_wire.client.channel import Channel

Metadata = Any
KINDS = (
    aio.UnaryUnaryClientInterceptor,
    aio.UnaryStreamClientInterceptor,
    aio.StreamUnaryClientInterceptor,
    aio.StreamStreamClientInterceptor,
)

_MANY_REQUESTS = 2
"""The first kind with a stream of requests."""


def sorted_interceptors(
    interceptors: Sequence[aio.ClientInterceptor] | None,
) -> list[list[aio.ClientInterceptor]]:
    """Interceptors by the kind of call: as in grpcio, each is of one kind, the first that fits.

    Raises:
        ValueError: One is of no kind.
    """
    rows: list[list[aio.ClientInterceptor]] = [[], [], [], []]
    for interceptor in interceptors or ():
        for row, kind in zip(rows, KINDS, strict=True):
            if isinstance(interceptor, kind):
                row.append(interceptor)
                break
        else:
            raise ValueError(f"{interceptor!r} is an interceptor of no kind of call")
    return rows


class _Callable:
    """A method on a channel."""

    kind: int
    """Its place among the four."""
    call_type: type[ClientCall]
    handle: type[Any] | None = None
    """Makes what the caller holds of a call; None: the call itself."""

    def __init__(self, channel: Channel, method: Method) -> None:
        self._channel = channel
        self._method = method

    def _call(
        self,
        request: Any,
        timeout: float | None,
        metadata: Metadata,
        wait_for_ready: bool | None,
        credentials: grpc.CallCredentials | None,
        compression: grpc.Compression | None,
    ) -> Any:
        """Begin a call, through the interceptors if there are some."""
        if credentials is not None:
            raise ValueError("credentials of a call are not supported: send metadata")
        channel, method = self._channel, self._method
        encoding = channel.compression if compression is None else NAMES[compression]
        if not method.interceptors:
            return self._begin(method, request, timeout, metadata, wait_for_ready, encoding)
        begin = partial(self._begin_intercepted, encoding)
        terms = (None if timeout == inf else timeout, metadata, wait_for_ready)
        return intercepted(self.kind, channel, method, begin, request, terms)

    def _begin_intercepted(
        self, encoding: str, details: aio.ClientCallDetails, request: Any
    ) -> Any:
        """Begin a call as its interceptors would have it."""
        method, timeout_s = self._method.at(details.method), details.timeout
        metadata, wait_for_ready = details.metadata, details.wait_for_ready
        return self._begin(method, request, timeout_s, metadata, wait_for_ready, encoding)

    def _begin(
        self,
        method: Method,
        request: Any,
        timeout_s: float | None,
        metadata: Metadata,
        wait_for_ready: bool | None,
        encoding: str,
    ) -> Any:
        """Begin a call; returns what the caller holds of it."""
        if timeout_s == inf:
            timeout_s = None
        channel = self._channel
        call: Any = self.call_type(channel, method, method.block(timeout_s, metadata, encoding))
        if encoding != "identity":
            call.compression = encoding
        if metadata:
            call.metadata_octets = metadata_octets(metadata)
        if wait_for_ready:
            call.wait_for_ready = True
        if self.kind >= _MANY_REQUESTS:
            channel.start(call, timeout_s)
            call.feed_from(request)
        else:
            try:
                call.request = call.serialize(request)
            except CallFailed:
                pass  # The call says so.
            else:
                channel.start(call, timeout_s)
        return call if self.handle is None else self.handle(call)


class _OneRequest(_Callable):
    """A method that takes one request."""

    def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> Any:
        """Begin a call.

        Raises:
            ValueError: Metadata cannot be sent.
            grpc.aio.UsageError: The channel is closed.
        """
        return self._call(request, timeout, metadata, wait_for_ready, credentials, compression)


class _ManyRequests(_Callable):
    """A method that takes many requests."""

    def __call__(
        self,
        request_iterator: Requests = None,
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> Any:
        """Begin a call."""
        return self._call(
            request_iterator, timeout, metadata, wait_for_ready, credentials, compression
        )


class UnaryUnary(_OneRequest, aio.UnaryUnaryMultiCallable):  # type: ignore[type-arg]
    """One request, one response."""

    kind = 0
    call_type = UnaryUnaryCall


class UnaryStream(_OneRequest, aio.UnaryStreamMultiCallable):  # type: ignore[type-arg]
    """One request, many responses."""

    kind = 1
    call_type = stream_call.UnaryStream
    handle = stream_call.UnaryStreamCall


class StreamUnary(_ManyRequests, aio.StreamUnaryMultiCallable):  # type: ignore[type-arg]
    """Many requests, one response."""

    kind = 2
    call_type = stream_call.StreamUnary
    handle = stream_call.StreamUnaryCall


class StreamStream(_ManyRequests, aio.StreamStreamMultiCallable):  # type: ignore[type-arg]
    """Many requests, many responses."""

    kind = 3
    call_type = stream_call.StreamStream
    handle = stream_call.StreamStreamCall
