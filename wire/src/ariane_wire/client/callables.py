"""What stubs call: a method of a service on a channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from ariane_wire.client import stream_call
from ariane_wire.client.call import ClientCall
from ariane_wire.client.method import Method
from ariane_wire.client.request_stream import Requests
from ariane_wire.client.unary_call import UnaryUnaryCall
from ariane_wire.protocol.compression import NAMES

if TYPE_CHECKING:
    from ariane_wire.client.channel import Channel

Metadata = Any
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


class _Callable:
    """A method on a channel."""

    def __init__(self, channel: Channel, method: Method) -> None:
        self._channel = channel
        self._method = method

    def _encoding(self, compression: grpc.Compression | None) -> str:
        return self._channel.compression if compression is None else NAMES[compression]

    def _block(self, timeout: float | None, metadata: Metadata, encoding: str) -> bytes:
        return self._method.block(timeout, metadata, encoding)

    def _prepare(
        self,
        call: ClientCall,
        encoding: str,
        wait_for_ready: bool | None,
        credentials: grpc.CallCredentials | None,
    ) -> None:
        if credentials is not None:
            raise ValueError("credentials of a call are not supported: send metadata")
        if wait_for_ready:
            call.wait_for_ready = True
        if encoding != "identity":
            call.compression = encoding


class UnaryUnary(_Callable, aio.UnaryUnaryMultiCallable):  # type: ignore[type-arg]
    """One request, one response."""

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
        method = self._method
        encoding = self._encoding(compression)
        call = UnaryUnaryCall(self._channel, method, method.block(timeout, metadata, encoding))
        if credentials is not None or wait_for_ready or encoding != "identity":
            self._prepare(call, encoding, wait_for_ready, credentials)
        call.request = call.serialize(request)
        self._channel.start(call, timeout)
        return call


class UnaryStream(_Callable, aio.UnaryStreamMultiCallable):  # type: ignore[type-arg]
    """One request, many responses."""

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
        """Begin a call."""
        encoding = self._encoding(compression)
        block = self._block(timeout, metadata, encoding)
        call = stream_call.UnaryStream(self._channel, self._method, block)
        self._prepare(call, encoding, wait_for_ready, credentials)
        call.request = call.serialize(request)
        self._channel.start(call, timeout)
        return stream_call.UnaryStreamCall(call)


class StreamUnary(_Callable, aio.StreamUnaryMultiCallable):  # type: ignore[type-arg]
    """Many requests, one response."""

    def __call__(  # noqa: PLR0917 - grpcio's signature.
        self,
        request_iterator: Requests = None,
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> Any:
        """Begin a call."""
        encoding = self._encoding(compression)
        block = self._block(timeout, metadata, encoding)
        call = stream_call.StreamUnary(self._channel, self._method, block)
        self._prepare(call, encoding, wait_for_ready, credentials)
        self._channel.start(call, timeout)
        call.feed_from(request_iterator)
        return stream_call.StreamUnaryCall(call)


class StreamStream(_Callable, aio.StreamStreamMultiCallable):  # type: ignore[type-arg]
    """Many requests, many responses."""

    def __call__(  # noqa: PLR0917 - grpcio's signature.
        self,
        request_iterator: Requests = None,
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> Any:
        """Begin a call."""
        encoding = self._encoding(compression)
        block = self._block(timeout, metadata, encoding)
        call = stream_call.StreamStream(self._channel, self._method, block)
        self._prepare(call, encoding, wait_for_ready, credentials)
        self._channel.start(call, timeout)
        call.feed_from(request_iterator)
        return stream_call.StreamStreamCall(call)
