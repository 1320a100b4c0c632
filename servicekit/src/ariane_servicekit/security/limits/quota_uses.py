"""Whom quotas have kept back: for metrics, the doctor and the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

USES_MAX: Final = 1_000
"""Quotas of subjects that are remembered at a time; the one kept back least lately goes first."""

LATELY_S: Final = 60.0
"""Who was kept back within so many seconds is at its quota."""


class QuotaAmount(NamedTuple):
    """What a subject uses of a quota."""

    figure: int
    """What is limited, a value of ``QuotaFigure``."""
    subject: int
    """Whose it is, a value of ``QuotaSubject``."""
    name: str
    """The name of the subject."""
    limit: int
    """The limit."""
    used: float
    """How much: in a second of rates, now of all others."""

    @property
    def part(self) -> float:
        """The part of the limit that is used, from 0."""
        return self.used / self.limit


@dataclass(slots=True, eq=False)
class QuotaUse:
    """A quota that has kept a subject back."""

    figure: int
    """What is limited, a value of ``QuotaFigure``."""
    subject: int
    """Whose it is, a value of ``QuotaSubject``."""
    name: str
    """The name of the subject."""
    limit: int
    """The limit, as it was last."""
    refused_count: int = 0
    """How often something was refused."""
    waited_s: float = 0.0
    """How long answers waited, together."""
    last_s: float = 0.0
    """When that was last, by the clock of the quotas."""
    refused_s: float | None = None
    """When something was refused last; None if never."""


class QuotaUses:
    """Of one process, since its start."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._uses: dict[tuple[int, int, str], QuotaUse] = {}

    def note(
        self, figure: int, subject: int, name: str, limit: int, *, waited_s: float | None = None
    ) -> None:
        """Note that a subject was kept back.

        Args:
            figure: What is limited, a value of ``QuotaFigure``.
            subject: Whose it is, a value of ``QuotaSubject``.
            name: Its name.
            limit: The limit.
            waited_s: How long an answer waits; None for a refusal.
        """
        key = (figure, subject, name)
        use = self._uses.pop(key, None)
        if use is None:
            if len(self._uses) >= USES_MAX:
                del self._uses[next(iter(self._uses))]
            use = QuotaUse(figure, subject, name, limit)
        self._uses[key] = use
        use.limit, use.last_s = limit, self._now_s()
        if waited_s is None:
            use.refused_count += 1
            use.refused_s = use.last_s
        else:
            use.waited_s += waited_s

    def all(self) -> list[QuotaUse]:
        """All that are remembered, the latest last."""
        return list(self._uses.values())

    def find(self, figure: int, subject: int, name: str) -> QuotaUse | None:
        """What is remembered of one; None if it was not kept back."""
        return self._uses.get((figure, subject, name))

    def is_late(self, moment_s: float | None) -> bool:
        """Whether a moment by the clock of the quotas is one of the last ``LATELY_S``."""
        return moment_s is not None and self._now_s() - moment_s <= LATELY_S

    def lately(self) -> Iterator[tuple[QuotaUse, float]]:
        """Those of subjects that are at their quota, and how many seconds ago; the latest first."""
        now_s = self._now_s()
        for use in reversed(self._uses.values()):
            if now_s - use.last_s > LATELY_S:
                return
            yield use, now_s - use.last_s
