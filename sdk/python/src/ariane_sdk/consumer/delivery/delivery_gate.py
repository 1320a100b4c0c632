"""Many deliveries at once, or one with nothing else in work: shared by the queues of a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DeliveryGate:
    """Lets deliveries in: any number that share, or one alone.

    One that waits to be alone goes before those that come later, and so waits only for what the
    listener has already.
    """

    def __init__(self) -> None:
        """Be empty."""
        self._sharing = 0
        self._alone = False
        self._waiting_alone = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be in work with nothing else."""
        self._waiting_alone += 1
        try:
            while self._alone or self._sharing:
                await self._changed.wait()
            self._alone = True
        finally:
            self._waiting_alone -= 1
            if not self._alone:
                self._tell()  # Cancelled: those behind need wait no longer.
        try:
            yield
        finally:
            self._alone = False
            self._tell()

    def enter_now(self) -> bool:
        """Be in work beside others, until ``leave``, if nobody is alone or waits to be."""
        if self._alone or self._waiting_alone:
            return False
        self._sharing += 1
        return True

    async def enter(self) -> None:
        """Be in work beside others, until ``leave``."""
        while not self.enter_now():
            await self._changed.wait()

    def leave(self) -> None:
        """A delivery is over that shared."""
        self._sharing -= 1
        if self._waiting_alone and not self._sharing:
            self._tell()

    def _tell(self) -> None:
        """Have all that wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()
