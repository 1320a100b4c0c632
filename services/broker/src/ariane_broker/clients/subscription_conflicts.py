"""Conflicts: members of a group with different subscriptions.

A group whose members have different filters loses messages silently: each member owns some queues,
and skips messages there that only other members want. So a member that differs is refused when it
attaches, changes its membership, or pulls. If the group's policy allows, it is admitted and listed
here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ariane_broker.clients.client_table import ClientTable, Conflict
from ariane_servicekit import in_turns

REMEMBERED_MAX: Final = 1000
REMEMBERED_SECONDS: Final = 3600.0
"""A refused member tries again every few seconds; it is forgotten this long after its last try."""


@dataclass(frozen=True, slots=True)
class SeenConflict:
    """A conflict, and when and how often it occurred.

    Attributes:
        conflict: The two members.
        refused: Whether the newcomer was refused; else both are members now.
        count: How often it occurred.
        last_ms: When it last occurred.
    """

    conflict: Conflict
    refused: bool
    count: int
    last_ms: int


class SubscriptionConflicts:
    """Records refused members, and finds conflicts between admitted members."""

    def __init__(self, *, now_ms: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._refused: dict[tuple[str, str, str], tuple[SeenConflict, float]] = {}

    def refuse(self, conflict: Conflict) -> None:
        """Record that a newcomer was refused."""
        key = _key(conflict)
        before = self._refused.pop(key, None)
        count = 1 + (0 if before is None else before[0].count)
        seen = SeenConflict(conflict, refused=True, count=count, last_ms=self._now_ms())
        self._refused[key] = (seen, self._monotonic())
        while len(self._refused) > REMEMBERED_MAX:
            del self._refused[next(iter(self._refused))]

    async def all(self, clients: ClientTable, consumer_group: str = "") -> list[SeenConflict]:
        """Conflicts of one group or all, by group and client ids.

        Args:
            clients: The present members.
            consumer_group: Only this group; all if empty.
        """
        now_ms, oldest = self._now_ms(), self._monotonic() - REMEMBERED_SECONDS
        self._refused = {
            key: (seen, at) for key, (seen, at) in self._refused.items() if at >= oldest
        }
        found = {key: seen for key, (seen, _) in self._refused.items()}
        for conflict in await in_turns(clients.conflicts()):
            found[_key(conflict)] = SeenConflict(conflict, refused=False, count=1, last_ms=now_ms)
        return [found[key] for key in sorted(found) if consumer_group in {"", key[0]}]


def _key(conflict: Conflict) -> tuple[str, str, str]:
    return (
        conflict.newcomer.membership.consumer_group,
        conflict.member.client_id,
        conflict.newcomer.client_id,
    )
