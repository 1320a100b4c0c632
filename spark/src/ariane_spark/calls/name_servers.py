"""The name servers of a query, some of them from sources that are read again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from threading import Thread
from typing import Final

from ariane_sdk.errors import NameServersUnreachable
from ariane_wire import AddressSources

REREAD_S: Final = 30.0
"""How often sources are read again."""


class NameServers:
    """Addresses in the order in which they are asked."""

    def __init__(self, endpoints: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read no source yet.

        Args:
            endpoints: Addresses and sources, separated by commas.
            monotonic: Seconds.
        """
        self._sources = AddressSources(endpoints.split(","))
        self._monotonic = monotonic
        self._read_at_s = float("-inf")
        # Tasks start at the same time; they should not all ask the same name server first.
        self._order: list[str] = []
        self._follow()

    def in_turn(self) -> tuple[str, ...]:
        """All that are known now.

        Raises:
            NameServersUnreachable: No source tells any.
        """
        if not self._sources.is_fixed and self._monotonic() - self._read_at_s >= REREAD_S:
            # In a thread of its own: the driver of a notebook runs a loop in this one.
            reading = Thread(target=lambda: asyncio.run(self._sources.read()))
            reading.start()
            reading.join()
            self._follow()
            self._read_at_s = self._monotonic()
        if not self._order:
            causes = "; ".join(self._sources.errors.values())
            self.read_again()
            raise NameServersUnreachable(f"no name server is known: {causes}", retriable=True)
        return tuple(self._order)

    def put_last(self, address: str) -> None:
        """Ask the others first."""
        self._order.remove(address)
        self._order.append(address)

    def read_again(self) -> None:
        """Read sources at the next request: nobody answered."""
        self._read_at_s = float("-inf")

    def _follow(self) -> None:
        known = self._sources.addresses
        fresh = [address for address in known if address not in self._order]
        random.shuffle(fresh)
        self._order = [address for address in self._order if address in known] + fresh
