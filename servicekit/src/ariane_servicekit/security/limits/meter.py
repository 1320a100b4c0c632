"""What one user or topic has used of its rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane.common.v1 import quota_pb2 as pb

SENT: Final = int(pb.QUOTA_FIGURE_SENT_BYTES)
RECEIVED: Final = int(pb.QUOTA_FIGURE_RECEIVED_BYTES)
CALLS: Final = int(pb.QUOTA_FIGURE_CALLS)
STORED: Final = int(pb.QUOTA_FIGURE_STORED_BYTES)
TOPICS: Final = int(pb.QUOTA_FIGURE_TOPICS)
GROUPS: Final = int(pb.QUOTA_FIGURE_GROUPS)
CREDENTIALS: Final = int(pb.QUOTA_FIGURE_CREDENTIALS)
CONNECTIONS: Final = int(pb.QUOTA_FIGURE_CONNECTIONS)

USER: Final = int(pb.QUOTA_SUBJECT_USER)
TOPIC: Final = int(pb.QUOTA_SUBJECT_TOPIC)
ADDRESS: Final = int(pb.QUOTA_SUBJECT_ADDRESS)
PREFIX: Final = int(pb.QUOTA_SUBJECT_PREFIX)

RATES: Final = (SENT, RECEIVED, CALLS)
"""The figures that are rates."""

FIGURE_WORDS: Final[Mapping[int, str]] = {
    SENT: "sent-bytes",
    RECEIVED: "received-bytes",
    CALLS: "calls",
    STORED: "stored-bytes",
    TOPICS: "topics",
    GROUPS: "groups",
    CREDENTIALS: "credentials",
    CONNECTIONS: "connections",
}
"""Figures in words, as commands and errors say them."""

SUBJECT_WORDS: Final[Mapping[int, str]] = {
    USER: "user",
    TOPIC: "topic",
    ADDRESS: "address",
    PREFIX: "prefix",
}
"""Subjects in words."""

SUBJECTS_OF: Final[Mapping[int, frozenset[int]]] = {
    SENT: frozenset({USER, TOPIC}),
    RECEIVED: frozenset({USER, TOPIC}),
    CALLS: frozenset({USER, TOPIC}),
    STORED: frozenset({TOPIC}),
    TOPICS: frozenset({PREFIX}),
    GROUPS: frozenset({PREFIX}),
    CREDENTIALS: frozenset({USER}),
    CONNECTIONS: frozenset({USER, ADDRESS}),
}
"""Whose each figure may be."""

BURST_S: Final = 1.0
"""Seconds of rest that a rate remembers."""

MEAN_S: Final = 10.0
"""Seconds that are counted together at least, to tell how much a second takes."""


class Rate:
    """Bytes or calls in a second; times are seconds of a monotonic clock.

    What was taken is paid by time, and who owes too much has to wait::

        now            paid_s
         |---- debt ----|          each second pays ``per_s``; a charge moves ``paid_s`` on

    Up to ``BURST_S`` of rest are kept, so that what is even on the whole is never slowed.
    """

    __slots__ = ("_begun_s", "_mean", "_paid_s", "_taken", "per_s")

    def __init__(self, per_s: int, now_s: float) -> None:
        self.per_s = per_s
        """How much one second pays."""
        self._paid_s = now_s - BURST_S
        self._begun_s = now_s
        self._taken = 0
        self._mean: float | None = None

    def charge(self, amount: int, now_s: float) -> None:
        """Take an amount, whatever is owed already."""
        if now_s - self._begun_s >= MEAN_S:
            self._turn(now_s)
        self._taken += amount
        self._paid_s = max(self._paid_s, now_s - BURST_S) + amount / self.per_s

    def debt_s(self, now_s: float) -> float:
        """How long it takes until all is paid; 0 if nothing is owed."""
        return max(0.0, self._paid_s - now_s)

    def mean(self, now_s: float) -> float:
        """How much a second took, in the last ``MEAN_S`` that are over, or since the beginning."""
        if now_s - self._begun_s >= MEAN_S:
            self._turn(now_s)
        if self._mean is None:
            return self._taken / max(BURST_S, now_s - self._begun_s)
        return self._mean

    def _turn(self, now_s: float) -> None:
        self._mean = self._taken / (now_s - self._begun_s)
        self._begun_s, self._taken = now_s, 0


class Meter:
    """The rates of one user or topic."""

    __slots__ = ("_rates", "name", "subject", "used")

    def __init__(self, subject: int, name: str) -> None:
        self.subject = subject
        """What it is, a value of ``QuotaSubject``."""
        self.name = name
        """Its name."""
        self.used: dict[int, int] = {}
        """What was taken of each limited figure since it was made: bytes or calls."""
        self._rates: dict[int, Rate] = {}

    def change(self, limits: Mapping[int, int], now_s: float) -> None:
        """Go on with other limits, by figure; what is owed stays owed."""
        for figure in [*self._rates]:
            if figure not in limits:
                del self._rates[figure], self.used[figure]
        for figure, per_s in limits.items():
            rate = self._rates.get(figure)
            if rate is None:
                self._rates[figure] = Rate(per_s, now_s)
                self.used[figure] = 0
            else:
                rate.per_s = per_s

    def charge(self, figure: int, amount: int, now_s: float) -> None:
        """Take an amount of a figure, if that is limited."""
        rate = self._rates.get(figure)
        if rate is not None:
            rate.charge(amount, now_s)
            self.used[figure] += amount

    def means(self, now_s: float) -> list[tuple[int, int, float]]:
        """Each limited figure, its limit, and how much a second takes of it."""
        return [(figure, rate.per_s, rate.mean(now_s)) for figure, rate in self._rates.items()]

    def debt_s(self, now_s: float, *figures: int) -> float:
        """How long it takes until all is paid, of some figures or of all; 0 without debt."""
        if figures:
            owed = (self._rates[each].debt_s(now_s) for each in figures if each in self._rates)
        else:
            owed = (rate.debt_s(now_s) for rate in self._rates.values())
        return max(owed, default=0.0)

    def worst(self, now_s: float, *figures: int) -> tuple[int, int]:
        """The figure that owes most, of some or of all, and its limit."""
        figure = max(
            (each for each in self._rates if not figures or each in figures),
            key=lambda each: self._rates[each].debt_s(now_s),
        )
        return figure, self._rates[figure].per_s
