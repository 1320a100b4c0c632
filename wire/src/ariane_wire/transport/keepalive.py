"""Asking whether a silent peer still lives."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ariane_wire.protocol.frames import ping_frame

if TYPE_CHECKING:
    from ariane_wire.options import ConnectionOptions
    from ariane_wire.transport.link import Link

PING: Final = b"alive-?\0"

TIMED_OUT: Final = "keepalive watchdog timeout"


class Keepalive:
    """One connection's; a single timer, which is not touched when octets come."""

    def __init__(self, link: Link, options: ConnectionOptions) -> None:
        self._link = link
        self._time_s = options.keepalive_time_s
        self._timeout_s = options.keepalive_timeout_s
        self._without_calls = options.keepalive_without_calls
        self._timer: asyncio.TimerHandle | None = None
        if self._time_s is not None:
            self._timer = link.loop.call_later(self._time_s, self._look)

    def close(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        link = self._link
        connection = link.connection
        if self._time_s is None or connection.is_over:
            return
        loop = link.loop
        silent_s = loop.time() - link.last_received
        if silent_s < self._time_s * 0.999:
            self._timer = loop.call_later(self._time_s - silent_s, self._look)
        elif not connection.streams and not self._without_calls:
            self._timer = loop.call_later(self._time_s, self._look)
        else:
            asked_at = link.last_received
            connection.out.append(ping_frame(PING))
            connection.carrier.wake()
            self._timer = loop.call_later(self._timeout_s, self._judge, asked_at)

    def _judge(self, asked_at: float) -> None:
        link = self._link
        if link.last_received > asked_at or link.connection.is_over:
            self._look()
            return
        link.connection.end(TIMED_OUT)
        if link.transport is not None:
            link.transport.abort()
