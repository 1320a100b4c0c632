"""Members that went without a goodbye, and the groups that were deleted after that.

A group comes to be with its first member. One that was frozen, or cut off, while its group was
deleted is no first member: it goes on as if nothing had happened, and would make the group anew,
with offsets that nobody wants any more. It is told instead.
"""

from __future__ import annotations

from typing import Final, TypeVar

_Known = TypeVar("_Known")

KEPT_MAX: Final = 10_000
"""So many members, and deleted groups, are remembered; the oldest are forgotten."""


class LostMembers:
    """What is remembered of both, in memory."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._event_count = 0
        self._lost: dict[str, tuple[int, str]] = {}
        self._deleted: dict[str, int] = {}

    def note_lost(self, client_id: str, incarnation: str) -> None:
        """Note that a client went without a goodbye."""
        _remember(self._lost, client_id, (self._next(), incarnation))

    def note_back(self, client_id: str) -> None:
        """Note that a client is here again."""
        self._lost.pop(client_id, None)

    def note_started(self, client_id: str, incarnation: str) -> None:
        """Note that a client attaches: under the id of a lost one it may be another process."""
        if incarnation != self._lost.get(client_id, (0, incarnation))[1]:
            self.note_back(client_id)

    def note_deleted(self, consumer_group: str) -> None:
        """Note that a group was deleted."""
        _remember(self._deleted, consumer_group, self._next())

    def has_missed_deletion(self, client_id: str, consumer_group: str) -> bool:
        """Whether a group was deleted while a client was lost."""
        lost = self._lost.get(client_id)
        return lost is not None and lost[0] < self._deleted.get(consumer_group, 0)

    def _next(self) -> int:
        self._event_count += 1
        return self._event_count


def _remember(known: dict[str, _Known], name: str, what: _Known) -> None:
    known.pop(name, None)
    known[name] = what
    if len(known) > KEPT_MAX:
        del known[next(iter(known))]
