"""Streams on which producers send requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpc import aio

from ariane_broker.errors.public_errors import broker_draining
from ariane_broker.rpc.peer_address import peer_host
from ariane_record.layout import Host
from ariane_servicekit.rpc.request_stream import RequestStreams, RequestWorker


class ProducerStreams:
    """The open streams of one method on which producers send."""

    def __init__(self, new_worker: Callable[[Host], RequestWorker[Any, Any]]) -> None:
        """``new_worker`` makes a worker for the requests of a producer at this address."""
        self._new_worker = new_worker
        self._streams = RequestStreams(broker_draining)

    async def serve(self, context: aio.ServicerContext[Any, Any]) -> None:
        """Answer the requests of a stream until it ends.

        Raises:
            ServiceError: SERVICE_DRAINING.
        """
        await self._streams.serve(context, self._new_worker(peer_host(context.peer())))

    def close(self) -> None:
        """Read nothing more; answer what is in work, and end the streams."""
        self._streams.close()
