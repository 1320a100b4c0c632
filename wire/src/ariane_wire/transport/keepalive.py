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
        self._pinged_at: float | None = None
        """When a ping went that has no answer yet."""
        if self._time_s is not None:
            self._timer = link.loop.call_later(self._time_s, self._check)

    def close(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        link = self._link
        connection = link.connection
        if self._time_s is None or connection.is_over:
            return
        now = link.loop.time()
        if self._pinged_at is not None and link.last_received <= self._pinged_at:
            left_s = self._pinged_at + self._timeout_s - now
            if left_s <= 0:
                connection.end(TIMED_OUT)
                if link.transport is not None:
                    link.transport.abort()
                return
            self._timer = link.loop.call_later(min(left_s, self._time_s), self._check)
            return
        self._pinged_at = None
        wait_s = link.last_received + self._time_s - now
        if wait_s <= self._time_s * 0.001:
            wait_s = self._time_s
            if connection.streams or self._without_calls:
                self._pinged_at = now
                connection.out.append(ping_frame(PING))
                connection.carrier.wake()
                wait_s = min(self._timeout_s, self._time_s)
        self._timer = link.loop.call_later(wait_s, self._check)
