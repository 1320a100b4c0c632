"""How many names that begin so may still be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.limits.meter import PREFIX
from ariane_servicekit.security.limits.quota_uses import QuotaAmount
from ariane_servicekit.security.limits.quotas import quota_exceeded


class NameRoom:
    """Counts names against the quotas of their beginnings."""

    def __init__(
        self,
        figure: int,
        limits: Mapping[str, int],
        names: Iterable[str] = (),
        exceeded: Callable[[int, int, str, int], ServiceError] = quota_exceeded,
    ) -> None:
        """Begin with names that stand.

        Args:
            figure: What they name: a value of ``QuotaFigure``.
            limits: By what names begin with.
            names: Those that stand.
            exceeded: Makes the error of a name without room.
        """
        self._figure = figure
        self._limits = limits
        self._exceeded = exceeded
        self._counts = dict.fromkeys(limits, 0)
        for name in names:
            self.count(name)

    @property
    def has_limits(self) -> bool:
        """Whether any beginning has a quota."""
        return bool(self._limits)

    def count(self, name: str) -> None:
        """Count a name that stands."""
        for prefix in self._limits:
            self._counts[prefix] += name.startswith(prefix)

    def take(self, name: str) -> None:
        """Count a new name.

        Raises:
            ServiceError: QUOTA_EXCEEDED; it is not counted.
        """
        for prefix, limit in self._limits.items():
            if name.startswith(prefix) and self._counts[prefix] >= limit:
                raise self._exceeded(self._figure, PREFIX, prefix, limit)
        self.count(name)

    def amounts(self) -> Iterator[QuotaAmount]:
        """How many names each beginning has that has a quota."""
        for prefix, limit in self._limits.items():
            yield QuotaAmount(self._figure, PREFIX, prefix, limit, self._counts[prefix])
