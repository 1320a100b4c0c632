"""What channels did that are closed, by address; of so many addresses."""

from __future__ import annotations

from typing import Final

from ariane_wire import Statistics

ADDRESSES_MAX: Final = 1000
"""Addresses with a sum of their own. Without a limit, a process would remember all that it ever
called in a cluster whose brokers come back under new addresses."""

OTHERS: Final = "others"
"""Stands for all addresses without a sum of their own."""


class EndedChannels:
    """Sums over closed channels; those of the address that ended first go to ``OTHERS``."""

    def __init__(self) -> None:
        """Know of none."""
        self._sums: dict[str, Statistics] = {}

    def add(self, address: str, statistics: Statistics) -> None:
        """Note what a channel did that is being closed."""
        ended = statistics.when_ended()
        known = self._sums.pop(address, None)
        self._sums[address] = ended if known is None else known + ended  # The last one to end.
        while len(self._sums) > ADDRESSES_MAX:
            first = next(each for each in list(self._sums) if each != OTHERS)
            gone = self._sums.pop(first, None)
            if gone is not None:  # A client in another thread was not there before.
                add_statistics(self._sums, OTHERS, gone)

    def by_address(self) -> dict[str, Statistics]:
        """The sums; may be called from any thread."""
        return dict(self._sums)


def add_statistics(found: dict[str, Statistics], address: str, more: Statistics) -> None:
    """Add to what is found of an address."""
    known = found.get(address)
    found[address] = more if known is None else known + more
