"""A gate for deliveries: many at once, or one alone; shared by the queues of a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DeliveryGate:
    """Admits any number of shared deliveries, or one that is alone.

    A delivery that waits to be alone goes before later ones, and so waits only for deliveries that
    the listener already has.
    """

    def __init__(self) -> None:
        """Start without deliveries."""
        self._sharing = 0
        self._alone = False
        self._waiting_alone = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Deliver while nothing else is delivered."""
        self._waiting_alone += 1
        try:
            while self._alone or self._sharing:
                await self._changed.wait()
            self._alone = True
        finally:
            self._waiting_alone -= 1
            if not self._alone:
                self._wake()  # Cancelled: later deliveries need not wait any longer.
        try:
            yield
        finally:
            self._alone = False
            self._wake()

    def enter_now(self) -> bool:
        """Begin a shared delivery, until ``leave``, if none is alone or waits to be."""
        if self._alone or self._waiting_alone:
            return False
        self._sharing += 1
        return True

    async def enter(self) -> None:
        """Wait for and begin a shared delivery, until ``leave``."""
        while not self.enter_now():
            await self._changed.wait()

    def leave(self) -> None:
        """End a shared delivery."""
        self._sharing -= 1
        if self._waiting_alone and not self._sharing:
            self._wake()

    def _wake(self) -> None:
        """Wake all waiting deliveries."""
        self._changed.set()
        self._changed = asyncio.Event()
