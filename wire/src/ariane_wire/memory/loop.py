"""An event loop whose clock jumps: nobody waits for anything but work.

It asks the operating system for nothing. Names and connections are those of a ``Network``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ariane_wire.memory.network import Network

if TYPE_CHECKING:
    from ariane_wire.memory.transport import MemoryTransport


class Standstill(RuntimeError):
    """Nothing is ready and nothing will ever be: everybody waits for somebody else."""


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop in virtual time, which begins at 0 s.

    Where nothing is ready, its clock is set to the next timer. So two runs of the same coroutines,
    with the same randomness, are the same run.
    """

    _scheduled: list[asyncio.TimerHandle]  # asyncio's own: the timers, the next one first.

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self._now_s = 0.0
        self._selector = self  # What asyncio's turn asks for events.

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._now_s

    def select(self, timeout: float | None) -> list[Any]:
        """Jump to the next timer; there are no events.

        Args:
            timeout: Seconds until then, as asyncio has it; None if there is no timer.

        Raises:
            Standstill: Nothing will ever happen.
        """
        if timeout is None:
            raise Standstill
        if timeout > 0:
            self._now_s = max(self._now_s, self._scheduled[0].when())
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps whom another thread would have to wake."""

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - asyncio's name.
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """The addresses of a name of the network.

        Raises:
            OSError: It has none.
        """
        del family, type, proto, flags
        return self.network.addresses(host, port)

    async def create_connection(  # type: ignore[override]  # What the transport calls, and no more.
        self,
        protocol_factory: Callable[[], asyncio.BufferedProtocol],
        host: str,
        port: int,
        **settings: Any,
    ) -> tuple[MemoryTransport, asyncio.BufferedProtocol]:
        """Connect to a port of the network.

        Raises:
            OSError: It refuses, or is out of reach.
            ValueError: TLS, which is not played.
        """
        if settings.get("ssl") is not None:
            raise ValueError("there is no TLS in memory")
        return await self.network.connect(self, protocol_factory, host, port)
