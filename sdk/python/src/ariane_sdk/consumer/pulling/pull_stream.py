"""One stream of pulls to a broker; the answers come in the order of the pulls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from google.protobuf.message import DecodeError
from grpc.aio import EOF, AioRpcError

from ariane.broker.v1 import pull_service_pb2
from ariane.broker.v1.pull_service_pb2 import PullRecordsRequest, StreamPullsRequest
from ariane_sdk.consumer.pulling.pull_wire import PullAnswer, pull_answer
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.status import error_from_rpc

if TYPE_CHECKING:
    from grpc.aio import Channel, StreamStreamCall

_SERVICE: Final = pull_service_pb2.DESCRIPTOR.services_by_name["PullService"].full_name
_METHOD: Final = f"/{_SERVICE}/StreamPulls"


class PullStream:
    """A stream that is open until it fails or is closed."""

    def __init__(self, channel: Channel, address: str, *, peer: str) -> None:
        self.address = address
        """The address of the broker."""
        self._peer = peer
        # Answers stay bytes, so that the decoder copies no records.
        open_stream: Any = channel.stream_stream(
            _METHOD, request_serializer=StreamPullsRequest.SerializeToString
        )
        self._call = cast("StreamStreamCall[StreamPullsRequest, bytes]", open_stream())
        self._turn = asyncio.Lock()

    async def ask(self, request: PullRecordsRequest, *, follow: bool) -> None:
        """Send a pull; its answers come after those to earlier pulls.

        Args:
            request: The pull.
            follow: Whether the broker may answer it more than once.

        Raises:
            CallError: The stream has failed.
        """
        try:
            # gRPC accepts one message at a time.
            async with self._turn:
                await self._call.write(StreamPullsRequest(pull=request, follow=follow))
        except AioRpcError as error:
            raise error_from_rpc(error, peer=self._peer) from error
        except asyncio.InvalidStateError as error:
            raise self._ended() from error

    async def answer(self, timeout_s: float) -> PullAnswer:
        """Return the next answer to the oldest pull that is not over.

        Raises:
            CallError: The stream has failed, or no answer came in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._call.read()
        except AioRpcError as error:
            raise error_from_rpc(error, peer=self._peer) from error
        except TimeoutError:
            raise DeadlinePassed(f"{self._peer} does not answer", retriable=True) from None
        if answer is EOF:
            raise self._ended()
        try:
            return pull_answer(cast("bytes", answer))
        except DecodeError as error:
            raise CallError(f"{self._peer}: its answer cannot be decoded: {error}") from error

    def close(self) -> None:
        """End the stream; no more answers come."""
        self._call.cancel()

    def _ended(self) -> ServiceUnavailable:
        return ServiceUnavailable(f"{self._peer} has ended the stream", retriable=True)
