"""Members that were at the primary before this one, and may take a moment to come back.

A broker that has just become primary knows no members. Whoever attaches first would take itself for
the only one, and begin where the others stored an offset last, behind what they have done since. So
it is told for how long it should wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

RETURN_S: Final = 5.0
"""How long members may take, from when the first client is back. Most need less than a second."""


class ReturningMembers:
    """How much longer members of groups may take."""

    def __init__(
        self,
        is_consumed: Callable[[str], bool],
        *,
        monotonic: Callable[[], float],
        had_another_primary: bool,
    ) -> None:
        """``is_consumed``: whether a group has an offset here; one without had no members.

        ``had_another_primary``: whether clients may have been at another broker of the set.
        """
        self._is_consumed = is_consumed
        self._monotonic = monotonic
        self._had_another_primary = had_another_primary
        self._until_s: float | None = None

    def left_s(self, groups: Iterable[str]) -> float:
        """The seconds for a client that attaches as a member of groups."""
        if not self._had_another_primary:
            return 0.0
        if self._until_s is None:
            self._until_s = self._monotonic() + RETURN_S
        left_s = self._until_s - self._monotonic()
        return left_s if left_s > 0 and any(map(self._is_consumed, groups)) else 0.0
