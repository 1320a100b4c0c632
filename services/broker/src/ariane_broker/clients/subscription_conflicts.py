"""Conflicts: members of a group with different subscriptions.

A group whose members have different filters loses messages silently: each member owns some queues,
and skips messages there that only other members want. So a member that differs is refused when it
attaches, changes its membership, or pulls. If the group's policy allows, it is admitted and listed
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ariane_broker.clients.client_table import ClientTable, Conflict

REMEMBERED_MAX: Final = 1000
WEIGHT_MAX: Final = 4 << 20
"""Of both sides of all that are remembered, as ``Membership.weight`` has it."""
REMEMBERED_SECONDS: Final = 3600.0
"""A refused member tries again every few seconds; it is forgotten this long after its last try."""


@dataclass(frozen=True, slots=True)
class SeenConflict:
    """A conflict, and when and how often it occurred."""

    conflict: Conflict
    """The two members."""
    refused: bool
    """Whether the newcomer was refused; else both are members now."""
    count: int
    """How often it occurred."""
    last_ms: int
    """When it last occurred."""


class SubscriptionConflicts:
    """Records refused members, and finds conflicts between admitted members."""

    def __init__(self, *, now_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._refused: dict[tuple[str, str, str], tuple[SeenConflict, float]] = {}
        self._weight = 0

    def refuse(self, conflict: Conflict) -> None:
        """Record that a newcomer was refused."""
        key = _key(conflict)
        before = self._refused.pop(key, None)
        count = 1 + (0 if before is None else before[0].count)
        seen = SeenConflict(conflict, refused=True, count=count, last_ms=self._now_ms())
        self._refused[key] = (seen, self._monotonic())
        self._weight += _weight(conflict) - (0 if before is None else _weight(before[0].conflict))
        while len(self._refused) > REMEMBERED_MAX or self._weight > WEIGHT_MAX:
            oldest, _ = self._refused.pop(next(iter(self._refused)))
            self._weight -= _weight(oldest.conflict)

    def walk(self, clients: ClientTable, consumer_group: str = "") -> Iterator[SeenConflict | None]:
        """Conflicts of one group or all, in any order; ``key_of`` sorts them.

        Yields once for each refused or present member that is examined.

        Args:
            clients: The present members.
            consumer_group: Only this group; all if empty.
        """
        now_ms, oldest = self._now_ms(), self._monotonic() - REMEMBERED_SECONDS
        self._refused = {
            key: (seen, at) for key, (seen, at) in self._refused.items() if at >= oldest
        }
        self._weight = sum(_weight(seen.conflict) for seen, _ in self._refused.values())
        refused = {key: seen for key, (seen, _) in self._refused.items()}
        for conflict in clients.conflicts():
            seen = None
            if conflict is not None:
                # Who was refused before may have been admitted since.
                refused.pop(_key(conflict), None)
                seen = SeenConflict(conflict, refused=False, count=1, last_ms=now_ms)
            yield _of_group(seen, consumer_group)
        for seen in refused.values():
            yield _of_group(seen, consumer_group)


def key_of(seen: SeenConflict) -> tuple[str, str, str]:
    """The key that sorts conflicts: group and client ids."""
    return _key(seen.conflict)


def _of_group(seen: SeenConflict | None, consumer_group: str) -> SeenConflict | None:
    """The conflict, or None if it is one of another group."""
    return seen if seen is not None and consumer_group in {"", key_of(seen)[0]} else None


def _key(conflict: Conflict) -> tuple[str, str, str]:
    return (
        conflict.newcomer.membership.consumer_group,
        conflict.member.client_id,
        conflict.newcomer.client_id,
    )


def _weight(conflict: Conflict) -> int:
    return conflict.member.membership.weight + conflict.newcomer.membership.weight
