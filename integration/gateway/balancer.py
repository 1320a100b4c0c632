"""A balancer that deals out every call, whatever connection it came by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import count
from threading import Event, Thread
from typing import Any, Self

import grpc
import grpc.aio

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
HOP_BY_HOP = ("user-agent", "grpc-", ":")


class Balancer:
    """Hands each call to the next of some servers that can be reached; in a thread of its own."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = list(addresses)
        self.dealt = [0] * len(addresses)
        """How many calls each server got."""
        self._turns = count()
        self._ready = Event()
        self._port = 0
        self._thread = Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(30)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._channels = [grpc.aio.insecure_channel(each, OPTIONS) for each in self._addresses]
        for channel in self._channels:
            channel.get_state(try_to_connect=True)
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers((_Anything(self),))
        self._port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._ready.set()
        await self._ended.wait()
        await server.stop(0.5)
        for channel in self._channels:
            await channel.close()

    def next_channel(self) -> grpc.aio.Channel:
        """The next server's that can be reached."""
        for _ in self._channels:
            turn = next(self._turns) % len(self._channels)
            state = self._channels[turn].get_state(try_to_connect=True)
            if state not in {
                grpc.ChannelConnectivity.TRANSIENT_FAILURE,
                grpc.ChannelConnectivity.CONNECTING,
            }:
                break
        self.dealt[turn] += 1
        return self._channels[turn]


class _Anything(grpc.GenericRpcHandler):
    """Every method, as streams of octets."""

    def __init__(self, balancer: Balancer) -> None:
        self._balancer = balancer

    def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler:
        method = handler_call_details.method

        async def forward(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            metadata = [
                (name, value)
                for name, value in context.invocation_metadata()
                if not name.startswith(HOP_BY_HOP)
            ]
            call = self._balancer.next_channel().stream_stream(method)(
                requests, metadata=metadata, timeout=context.time_remaining()
            )
            try:
                async for response in call:
                    yield response
            except grpc.aio.AioRpcError as error:
                trailing = tuple(error.trailing_metadata() or ())
                await context.abort(error.code(), error.details() or "", trailing)
            finally:
                call.cancel()

        return grpc.stream_stream_rpc_method_handler(forward)
