"""What stubs call: a method of a service on a channel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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
_Call = TypeVar("_Call", bound=ClientCall)
KINDS = (
    aio.UnaryUnaryClientInterceptor,
    aio.UnaryStreamClientInterceptor,
    aio.StreamUnaryClientInterceptor,
    aio.StreamStreamClientInterceptor,
)


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


class Terms(NamedTuple):
    """How a call is to be made."""

    timeout_s: float | None
    """None for as long as it takes."""
    metadata: Metadata
    wait_for_ready: bool
    encoding: str
    """Of its messages."""


class _Callable:
    """A method on a channel."""

    kind: int

    def __init__(self, channel: Channel, method: Method) -> None:
        self._channel = channel
        self._method = method

    def _call(
        self,
        request: Any,
        terms: tuple[float | None, Metadata, bool | None],
        credentials: grpc.CallCredentials | None,
        compression: grpc.Compression | None,
    ) -> Any:
        """Begin a call, through the interceptors if there are some."""
        if credentials is not None:
            raise ValueError("credentials of a call are not supported: send metadata")
        if terms[0] == inf:
            terms = (None, *terms[1:])
        channel, method = self._channel, self._method
        encoding = channel.compression if compression is None else NAMES[compression]
        if not method.interceptors:
            timeout_s, metadata, ready = terms
            return self._begin(method, request, Terms(timeout_s, metadata, bool(ready), encoding))
        begin = partial(self._begin_intercepted, encoding)
        return intercepted(self.kind, channel, method, begin, request, terms)

    def _begin_intercepted(
        self, encoding: str, details: aio.ClientCallDetails, request: Any
    ) -> Any:
        """Begin a call as its interceptors would have it."""
        method = self._method.at(details.method)
        ready = bool(details.wait_for_ready)
        terms = Terms(details.timeout, details.metadata, ready, encoding)
        return self._begin(method, request, terms)

    def _begin(self, method: Method, request: Any, terms: Terms) -> Any:
        raise NotImplementedError

    def _made(self, kind: type[_Call], method: Method, terms: Terms) -> _Call:
        """A call that has not begun."""
        block = method.block(terms.timeout_s, terms.metadata, terms.encoding)
        call = kind(self._channel, method, block)
        call.compression = terms.encoding
        return call

    def _start(self, call: ClientCall, terms: Terms) -> None:
        if terms.metadata:
            call.metadata_octets = metadata_octets(terms.metadata)
        if terms.wait_for_ready:
            call.wait_for_ready = True
        self._channel.start(call, terms.timeout_s)


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
        return self._call(request, (timeout, metadata, wait_for_ready), credentials, compression)


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
        terms = (timeout, metadata, wait_for_ready)
        return self._call(request_iterator, terms, credentials, compression)


class UnaryUnary(_OneRequest, aio.UnaryUnaryMultiCallable):  # type: ignore[type-arg]
    """One request, one response."""

    kind = 0

    def _begin(self, method: Method, request: Any, terms: Terms) -> UnaryUnaryCall:
        call = self._made(UnaryUnaryCall, method, terms)
        try:
            call.request = call.serialize(request)
        except CallFailed:
            return call
        self._start(call, terms)
        return call


class UnaryStream(_OneRequest, aio.UnaryStreamMultiCallable):  # type: ignore[type-arg]
    """One request, many responses."""

    kind = 1

    def _begin(self, method: Method, request: Any, terms: Terms) -> stream_call.UnaryStreamCall:
        call = self._made(stream_call.UnaryStream, method, terms)
        try:
            call.request = call.serialize(request)
        except CallFailed:
            return stream_call.UnaryStreamCall(call)
        self._start(call, terms)
        return stream_call.UnaryStreamCall(call)


class StreamUnary(_ManyRequests, aio.StreamUnaryMultiCallable):  # type: ignore[type-arg]
    """Many requests, one response."""

    kind = 2

    def _begin(self, method: Method, request: Any, terms: Terms) -> stream_call.StreamUnaryCall:
        call = self._made(stream_call.StreamUnary, method, terms)
        self._start(call, terms)
        call.feed_from(request)
        return stream_call.StreamUnaryCall(call)


class StreamStream(_ManyRequests, aio.StreamStreamMultiCallable):  # type: ignore[type-arg]
    """Many requests, many responses."""

    kind = 3

    def _begin(self, method: Method, request: Any, terms: Terms) -> stream_call.StreamStreamCall:
        call = self._made(stream_call.StreamStream, method, terms)
        self._start(call, terms)
        call.feed_from(request)
        return stream_call.StreamStreamCall(call)
