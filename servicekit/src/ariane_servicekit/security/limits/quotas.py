"""The quotas of one process, and what was used of them.

A question for a subject without a quota is one look-up. Meters are made when a subject is first
seen, and at most ``METERS_MAX`` are kept: those that owe nothing go first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from ariane.common.v1 import quota_pb2 as pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.limits.meter import (
    ADDRESS,
    CONNECTIONS,
    FIGURE_WORDS,
    PREFIX,
    RATES,
    SUBJECT_WORDS,
    TOPIC,
    USER,
    Meter,
)
from ariane_servicekit.security.limits.quota_uses import QuotaAmount, QuotaUses

METERS_MAX: Final = 10_000
"""Users and topics whose use is remembered at a time."""

WAIT_S_MAX: Final = 5.0
"""Seconds by which an answer is delayed at most."""


class Quotas:
    """Answers what a subject may have, and remembers what it used."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Limit nothing yet; ``now_s`` is a monotonic clock."""
        self.now_s = now_s
        self.uses = QuotaUses(now_s)
        """Whom they have kept back."""
        self.limits_callers = False
        """Whether a rate or the connections of users are limited."""
        self.limits_topics = False
        """Whether a rate of topics is limited."""
        self.limits_connections = False
        """Whether connections of users are limited."""
        self._limits: dict[tuple[int, int, str], int] = {}
        self._networks: list[tuple[IPv4Network | IPv6Network, int]] = []
        self._meters: dict[tuple[int, str], Meter] = {}

    def change(self, stated: Iterable[pb.Quota]) -> None:
        """Limit otherwise from now on; what is owed stays owed."""
        limits = {(int(q.figure), int(q.subject), q.name): q.limit for q in stated}
        if limits == self._limits:
            return
        self._limits = limits
        rates_of = {subject for figure, subject, _ in limits if figure in RATES}
        self.limits_topics = TOPIC in rates_of
        self.limits_connections = any(key[:2] == (CONNECTIONS, USER) for key in limits)
        self.limits_callers = self.limits_connections or USER in rates_of
        networks = (
            (ip_network(name), limit)
            for (figure, subject, name), limit in limits.items()
            if (figure, subject) == (CONNECTIONS, ADDRESS) and name
        )
        self._networks = sorted(networks, key=lambda each: -each[0].prefixlen)
        now_s = self.now_s()
        for (subject, name), meter in self._meters.items():
            meter.change(self._rates_of(subject, name), now_s)

    def limit(self, figure: int, subject: int, name: str) -> int | None:
        """The limit of a subject: its own, or that of all without one; None without."""
        own = self._limits.get((figure, subject, name))
        return self._limits.get((figure, subject, "")) if own is None else own

    def used(self) -> Iterator[tuple[Meter, int, int]]:
        """What meters have counted, by figure: bytes or calls since each was made."""
        for meter in list(self._meters.values()):
            for figure, amount in meter.used.items():
                yield meter, figure, amount

    def amounts(self) -> Iterator[QuotaAmount]:
        """What a second takes of each rate that was used."""
        now_s = self.now_s()
        for meter in list(self._meters.values()):
            for figure, limit, mean in meter.means(now_s):
                yield QuotaAmount(figure, meter.subject, meter.name, limit, mean)

    def has(self, figure: int) -> bool:
        """Whether anything has a quota of a figure."""
        return any(key[0] == figure for key in self._limits)

    def prefixes(self, figure: int) -> dict[str, int]:
        """The limits of all names that begin so, together."""
        subject = PREFIX
        return {
            n: limit for (f, s, n), limit in self._limits.items() if (f, s) == (figure, subject)
        }

    def user(self, name: str) -> Meter | None:
        """The rates of a user; None without any."""
        return self._meter(USER, name)

    def topic(self, name: str) -> Meter | None:
        """The rates of a topic; None without any."""
        return self._meter(TOPIC, name) if self.limits_topics else None

    def connections_from(self, host: str) -> int | None:
        """How many connections a host may have, as ``host_of`` says it; None for any number."""
        if self._networks:
            try:
                found = ip_network(host)
            except ValueError:
                return None
            for network, limit in self._networks:
                if found.version == network.version and found.subnet_of(network):  # type: ignore[arg-type]
                    return limit
        return self._limits.get((CONNECTIONS, ADDRESS, ""))

    def _meter(self, subject: int, name: str) -> Meter | None:
        meter = self._meters.get((subject, name))
        if meter is None:
            limits = self._rates_of(subject, name)
            if not limits:
                return None
            if len(self._meters) >= METERS_MAX:
                self._forget()
            meter = self._meters[subject, name] = Meter(subject, name)
            meter.change(limits, self.now_s())
        return meter

    def _rates_of(self, subject: int, name: str) -> dict[int, int]:
        found = ((figure, self.limit(figure, subject, name)) for figure in RATES)
        return {figure: limit for figure, limit in found if limit is not None}

    def _forget(self) -> None:
        """Forget the half that owes least: who owes nothing loses nothing."""
        now_s = self.now_s()
        by_debt = sorted(self._meters.items(), key=lambda each: -each[1].debt_s(now_s))
        self._meters = dict(by_debt[: METERS_MAX // 2])


def quota_exceeded(
    figure: int, subject: int, name: str, limit: int, wait_s: float | None = None
) -> ServiceError:
    """Return the error for a subject that has used up its quota.

    Args:
        figure: What is limited, a value of ``QuotaFigure``.
        subject: Whose it is, a value of ``QuotaSubject``.
        name: Its name.
        limit: The limit.
        wait_s: After how many seconds it may try again; None if time alone does not help.
    """
    words = (FIGURE_WORDS[figure], SUBJECT_WORDS[subject])
    in_time = " a second" if figure in RATES else ""
    return ServiceError(
        ErrorReason.ERROR_REASON_QUOTA_EXCEEDED,
        f"{words[1]} {name} has used up its quota of {words[0]}, {limit}{in_time}, here",
        {"figure": words[0], "subject": words[1], "name": name, "limit": limit},
        retry_after_ms=None if wait_s is None else max(1, int(wait_s * 1000)),
    )
