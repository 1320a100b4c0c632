"""Waiting until what was sent has left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from ariane_wire.transport.link import Link

if TYPE_CHECKING:
    from ariane_wire.protocol.stream import Stream


async def left(stream: Stream) -> None:
    """Wait until all that was sent on a stream is the transport's, or the connection is gone.

    Returns without waiting where that is so.
    """
    connection = stream.connection
    while stream.pending_octets and not stream.is_gone:
        waiter = stream.sent_waiter
        if waiter is None:
            waiter = stream.sent_waiter = cast("Link", connection.carrier).loop.create_future()
        # Several may wait for the same.
        await asyncio.shield(cast("asyncio.Future[None]", waiter))
    if connection.out and not connection.is_over:
        await asyncio.shield(cast("Link", connection.carrier).flushed())
