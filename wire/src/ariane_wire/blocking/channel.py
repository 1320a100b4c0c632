"""Channels for threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import grpc
from grpc import ChannelConnectivity

from ariane_wire.blocking.callables import StreamStream, StreamUnary, UnaryStream, UnaryUnary
from ariane_wire.blocking.loop_thread import THREAD
from ariane_wire.client.channel import Channel
from ariane_wire.client.method import Method
from ariane_wire.client.opening import CheckServer, Opening
from ariane_wire.options import ChannelOptions, OptionPairs, channel_options
from ariane_wire.transport.tls import Credentials, checked


class BlockingChannel(grpc.Channel):
    """A channel that any thread may use, also in processes that are forked later."""

    def __init__(
        self,
        target: str,
        options: ChannelOptions,
        compression: Any,
        *,
        tls: Credentials | None = None,
        check_server: CheckServer | None = None,
        opening: Opening | None = None,
    ) -> None:
        self._target = target
        self._options = options
        self._tls = tls
        self._check_server = check_server
        self._opening = opening
        self._compression = compression
        self._generation = THREAD.generation
        self._channel = self._make()
        self._is_closed = False
        self._watchers: dict[Any, asyncio.Task[None]] = {}

    def _make(self) -> Channel:
        return Channel(
            self._target,
            self._options,
            tls=self._tls,
            check_server=self._check_server,
            opening=self._opening,
            compression=self._compression,
        )

    def here(self) -> Channel:
        """The channel of this process.

        Raises:
            ValueError: It is closed, as grpcio has it.
        """
        if self._is_closed:
            raise ValueError("Cannot invoke RPC on closed channel!")
        if self._generation != THREAD.generation:
            self._leave_to_parent()
        return self._channel

    def _leave_to_parent(self) -> None:
        """Give back what this process has of the parent's connections, and begin anew."""
        for handle in self._channel.socket_handles():
            os.close(handle)
        THREAD.leave_behind(self._channel)
        self._generation = THREAD.generation
        self._channel = self._make()
        self._watchers = {}

    def method(
        self,
        name: str,
        serializer: Callable[[Any], bytes] | None,
        deserializer: Callable[[bytes], Any] | None,
    ) -> Method:
        """A method of the channel."""
        return self._channel.method(0, name, serializer, deserializer)

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> UnaryUnary:
        """A method with one request and one response."""
        return UnaryUnary(self, self.method(method, request_serializer, response_deserializer))

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> UnaryStream:
        """A method with one request and many responses."""
        return UnaryStream(self, self.method(method, request_serializer, response_deserializer))

    def stream_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> StreamUnary:
        """A method with many requests and one response."""
        return StreamUnary(self, self.method(method, request_serializer, response_deserializer))

    def stream_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> StreamStream:
        """A method with many requests and many responses."""
        return StreamStream(self, self.method(method, request_serializer, response_deserializer))

    def subscribe(
        self, callback: Callable[[ChannelConnectivity], None], try_to_connect: bool | None = None
    ) -> None:
        """Call back with the state of the channel, now and whenever it changes."""
        THREAD.call(self._subscribe, self.here(), callback, bool(try_to_connect))

    def _subscribe(
        self, channel: Channel, callback: Callable[[ChannelConnectivity], None], connect: object
    ) -> None:
        async def watch() -> None:
            state = channel.get_state(try_to_connect=bool(connect))
            while True:
                callback(state)
                if state is ChannelConnectivity.SHUTDOWN:
                    return
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=bool(connect))

        self._watchers[callback] = THREAD.loop().create_task(watch())

    def unsubscribe(self, callback: Callable[[ChannelConnectivity], None]) -> None:
        """Call back no more."""
        THREAD.call(self._unsubscribe, callback)

    def _unsubscribe(self, callback: Callable[[ChannelConnectivity], None]) -> None:
        task = self._watchers.pop(callback, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Close; calls in work end as cancelled."""
        if self._is_closed or self._generation != THREAD.generation or THREAD.has_ended:
            self._is_closed = True
            return
        self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._channel.close(), THREAD.loop()).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()


def insecure_channel(
    target: str,
    options: ChannelOptions | OptionPairs | None = None,
    compression: grpc.Compression | None = None,
    *,
    opening: Opening | None = None,
) -> BlockingChannel:
    """Make a channel in plain text; see ``grpc.insecure_channel``.

    Raises:
        ValueError: The target or an option is none.
    """
    return BlockingChannel(target, channel_options(options), compression, opening=opening)


def secure_channel(
    target: str,
    credentials: Credentials,
    options: ChannelOptions | OptionPairs | None = None,
    compression: grpc.Compression | None = None,
    *,
    check_server: CheckServer | None = None,
    opening: Opening | None = None,
) -> BlockingChannel:
    """Make a channel over TLS; see ``grpc.secure_channel`` and ``ariane_wire.secure_channel``.

    What is called for a new connection is called on the loop of the channels.

    Raises:
        TypeError: The credentials are no ``ssl.SSLContext``.
        ValueError: The target or an option is none.
    """
    return BlockingChannel(
        target,
        channel_options(options),
        compression,
        tls=checked(credentials, "the authorities to trust"),
        check_server=check_server,
        opening=opening,
    )
