"""Keeping a channel connected: when to try, how long to wait, and what state that is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from grpc import ChannelConnectivity

GROWTH: Final = 1.6
JITTER: Final = 0.2


class Backoff:
    """How long to wait between the beginnings of attempts that fail."""

    def __init__(self, first_s: float, max_s: float, chance: Random) -> None:
        self._first_s = min(first_s, max_s)
        self._max_s = max_s
        self._chance = chance
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Seconds; each wait is longer than the one before, up to the longest."""
        wait_s = self._next_s
        self._next_s = min(wait_s * GROWTH, self._max_s)
        return wait_s * (1 + JITTER * (2 * self._chance.random() - 1))

    def reset(self) -> None:
        """An attempt has succeeded."""
        self._next_s = self._first_s


class Reconnecting:
    """Attempts to connect, one after the other, until one succeeds."""

    def __init__(
        self,
        attempt: Callable[[], Awaitable[None]],
        backoff: Backoff,
        changed: Callable[[ChannelConnectivity], None],
        timeout_s: float,
    ) -> None:
        self._attempt = attempt
        self._backoff = backoff
        self._changed = changed
        self._timeout_s = timeout_s
        self._task: asyncio.Task[None] | None = None
        self.state = ChannelConnectivity.IDLE
        """As gRPC names it."""
        self.last_error = ""
        """Why the last attempt failed, as a text."""
        self.last_failure: Exception | None = None
        """The same, as it was raised."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to try, if nobody does."""
        if self._task is None and self.state is not ChannelConnectivity.SHUTDOWN:
            self.set_state(ChannelConnectivity.CONNECTING)
            self._task = loop.create_task(self._run(loop), name="ariane-wire-connect")

    def lost(self) -> None:
        """The connection is gone; the next call begins anew."""
        if self.state is ChannelConnectivity.READY:
            self.set_state(ChannelConnectivity.IDLE)

    async def close(self) -> None:
        """Try no more."""
        self.set_state(ChannelConnectivity.SHUTDOWN)
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def set_state(self, state: ChannelConnectivity) -> None:
        """Change the state, and tell."""
        if state is not self.state and self.state is not ChannelConnectivity.SHUTDOWN:
            self.state = state
            self._changed(state)

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self.state is not ChannelConnectivity.SHUTDOWN:
                begin_s = loop.time()
                wait_s = self._backoff.next_s()
                try:
                    async with asyncio.timeout(max(self._timeout_s, wait_s)):
                        await self._attempt()
                except TimeoutError as error:
                    self.last_failure = error
                    self.last_error = "no answer in time"
                except Exception as error:  # noqa: BLE001 - of resolvers and TLS, too: calls tell.
                    self.last_failure = error
                    self.last_error = str(error) or repr(error)
                else:
                    self._backoff.reset()
                    self.set_state(ChannelConnectivity.READY)
                    return
                self.set_state(ChannelConnectivity.TRANSIENT_FAILURE)
                await asyncio.sleep(max(0.0, begin_s + wait_s - loop.time()))
                self.set_state(ChannelConnectivity.CONNECTING)
        finally:
            self._task = None
