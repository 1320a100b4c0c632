"""What blocking stubs call."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Any

import grpc

from ariane_wire.blocking.calls import (
    BlockingCall,
    QueuedStreamStream,
    QueuedUnaryStream,
    ResponseIterator,
    feed,
)
from ariane_wire.blocking.loop_thread import THREAD
from ariane_wire.client import stream_call
from ariane_wire.client.call import ClientCall
from ariane_wire.client.method import Method
from ariane_wire.client.unary_call import UnaryUnaryCall
from ariane_wire.errors import CallFailed
from ariane_wire.protocol.compression import NAMES
from ariane_wire.protocol.headers.metadata import metadata_octets

if TYPE_CHECKING:
    from ariane_wire.blocking.channel import BlockingChannel

Metadata = Any


class _Callable:
    """A method on a channel."""

    def __init__(self, channel: BlockingChannel, method: Method) -> None:
        self._channel = channel
        self._method = method

    def _new(
        self,
        kind: type[ClientCall],
        timeout: float | None,
        metadata: Metadata,
        compression: grpc.Compression | None,
        *,
        wait_for_ready: bool | None,
        credentials: object,
    ) -> Any:
        """A call that has not begun."""
        if credentials is not None:
            raise ValueError("credentials of a call are not supported: send metadata")
        timeout = None if timeout == inf else timeout
        channel = self._channel.here()
        encoding = channel.compression if compression is None else NAMES[compression]
        call = kind(channel, self._method, self._method.block(timeout, metadata, encoding))
        if encoding != "identity":
            call.compression = encoding
        if metadata:
            call.metadata_octets = metadata_octets(metadata)
        if wait_for_ready:
            call.wait_for_ready = True
        return call

    @staticmethod
    def _start(call: ClientCall, timeout: float | None) -> None:
        THREAD.call(_begin, call, None if timeout == inf else timeout)


def _begin(call: ClientCall, timeout: float | None) -> None:
    """Begin a call on the loop; one of a channel that was closed meanwhile ends as cancelled."""
    if call.code_ is None:
        try:
            call.channel.start(call, timeout)
        except grpc.aio.UsageError as error:
            call.finish(grpc.StatusCode.CANCELLED, str(error))


class UnaryUnary(_Callable, grpc.UnaryUnaryMultiCallable):  # type: ignore[type-arg]
    """One request, one response."""

    def future(  # type: ignore[override]  # Its types forget that it is a call, too.
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> BlockingCall:
        """Begin a call."""
        call: UnaryUnaryCall = self._new(
            UnaryUnaryCall,
            timeout,
            metadata,
            compression,
            wait_for_ready=wait_for_ready,
            credentials=credentials,
        )
        future = BlockingCall(call)
        try:
            call.request = call.serialize(request)
        except CallFailed:
            return future
        self._start(call, timeout)
        return future

    def with_call(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> tuple[Any, Any]:
        """Call, and wait; return the response and the call."""
        future = self.future(request, timeout, metadata, credentials, wait_for_ready, compression)
        return future.wait_result(), future

    def __call__(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> Any:
        """Call, and wait for the response.

        Raises:
            CallFailed: The call ended with another status than OK.
        """
        future = self.future(request, timeout, metadata, credentials, wait_for_ready, compression)
        return future.wait_result()


class UnaryStream(_Callable, grpc.UnaryStreamMultiCallable):  # type: ignore[type-arg]
    """One request, many responses."""

    def __call__(  # type: ignore[override]  # Its types forget that it is a call, too.
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> ResponseIterator:
        """Begin a call."""
        call: QueuedUnaryStream = self._new(
            QueuedUnaryStream,
            timeout,
            metadata,
            compression,
            wait_for_ready=wait_for_ready,
            credentials=credentials,
        )
        iterator = ResponseIterator(call)
        try:
            call.request = call.serialize(request)
        except CallFailed:
            return iterator
        self._start(call, timeout)
        return iterator


class StreamUnary(_Callable, grpc.StreamUnaryMultiCallable):  # type: ignore[type-arg]
    """Many requests, one response."""

    def future(  # type: ignore[override]  # Its types forget that it is a call, too.
        self,
        request_iterator: Iterable[Any],
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> BlockingCall:
        """Begin a call."""
        call: stream_call.StreamUnary = self._new(
            stream_call.StreamUnary,
            timeout,
            metadata,
            compression,
            wait_for_ready=wait_for_ready,
            credentials=credentials,
        )
        future = BlockingCall(call)
        self._start(call, timeout)
        feed(call, request_iterator)
        return future

    def with_call(
        self,
        request_iterator: Iterable[Any],
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> tuple[Any, Any]:
        """Call, and wait; return the response and the call."""
        terms = (timeout, metadata, credentials, wait_for_ready, compression)
        future = self.future(request_iterator, *terms)
        return future.wait_result(), future

    def __call__(
        self,
        request_iterator: Iterable[Any],
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> Any:
        """Call, and wait for the response."""
        terms = (timeout, metadata, credentials, wait_for_ready, compression)
        return self.future(request_iterator, *terms).wait_result()


class StreamStream(_Callable, grpc.StreamStreamMultiCallable):  # type: ignore[type-arg]
    """Many requests, many responses."""

    def __call__(  # type: ignore[override]  # Its types forget that it is a call, too.
        self,
        request_iterator: Iterable[Any],
        timeout: float | None = None,
        metadata: Metadata = None,
        credentials: grpc.CallCredentials | None = None,
        wait_for_ready: bool | None = None,
        compression: grpc.Compression | None = None,
    ) -> ResponseIterator:
        """Begin a call."""
        call: QueuedStreamStream = self._new(
            QueuedStreamStream,
            timeout,
            metadata,
            compression,
            wait_for_ready=wait_for_ready,
            credentials=credentials,
        )
        iterator = ResponseIterator(call)
        self._start(call, timeout)
        feed(call, request_iterator)
        return iterator
