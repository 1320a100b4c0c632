"""What goes wrong on purpose, and how often it did."""

from __future__ import annotations

from collections import Counter
from typing import Final

DATABASE_FAILED: Final = "the shop's database failed, the order was placed again"
CLICKED_TWICE: Final = "customers clicked twice"
SHOP_DIED: Final = "the shop died after its commit, the check found out"
SHOP_DIED_BEFORE: Final = "the shop died before its commit, the check rolled back"
SENT_TWICE: Final = "payments were sent a second time under another id"
BANK_FAILED: Final = "the bank failed before its commit"
BANK_DIED: Final = "the bank died after its commit, before saying so"
SKIPPED: Final = "deliveries were skipped by the inbox"

FORCED: Final = (
    DATABASE_FAILED,
    CLICKED_TWICE,
    SHOP_DIED,
    SHOP_DIED_BEFORE,
    SENT_TWICE,
    BANK_FAILED,
    BANK_DIED,
    SKIPPED,
)


class Trouble(Exception):
    """Something that was made to fail."""


class Troubles:
    """Fails every so often, and counts."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self.counts: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()

    def is_due(self, name: str, every: int) -> bool:
        """Whether it is time for this one again."""
        self._turns[name] += 1
        due = self._turns[name] % every == 0
        self.counts[name] += due
        return due
