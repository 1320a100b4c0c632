"""An event loop whose time is virtual: when everybody waits, it jumps to who is woken next."""

from __future__ import annotations

import asyncio


class VirtualLoop(asyncio.SelectorEventLoop):
    """Hours in seconds, the same every time; there is nobody outside to wait for."""

    def __init__(self) -> None:
        """Begin at 0."""
        super().__init__()
        self._now_s = 0.0
        self._really_select = self._selector.select
        self._selector.select = self._select

    def time(self) -> float:
        """Virtual seconds."""
        return self._now_s

    def _select(self, timeout):
        if timeout is None:
            raise RuntimeError("everybody waits for somebody else")
        self._now_s += max(timeout, 0.0)
        return self._really_select(0)


class LoopClock:
    """The clock of the running loop, as the client asks for it."""

    def monotonic_s(self) -> float:
        """Virtual seconds."""
        return asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        """Virtual milliseconds since the epoch."""
        return 1_700_000_000_000 + round(self.monotonic_s() * 1000)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
