"""Named members that are away for a moment, as in a deployment: their queues are kept for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ariane_broker.clients.members.membership import Membership

COUNT_MAX: Final = 10_000
OF_GROUP_MAX: Final = 256
"""So many members of a group may be away at a time: under names that never come back, such as those
that a pod gets anew at each start, each holds queues for as long as it said."""
WEIGHT_MAX: Final = 16 << 20
"""Of all that are kept, as ``Membership.weight`` has it. Beyond this and ``COUNT_MAX`` a member
that goes is gone: whoever may consume for a group can come and go under ever new names."""


@dataclass(frozen=True, slots=True)
class AbsentMember:
    """A member that is expected back under its client id."""

    client_id: str
    """The member."""
    address: str
    """The address that it had."""
    membership: Membership
    """Its membership."""
    until: float
    """When it counts as gone, in seconds of the monotonic clock."""


class AbsentMembers:
    """The absent members of all groups."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Start without any."""
        self._monotonic = monotonic
        self._groups: dict[str, dict[str, AbsentMember]] = {}
        self._count = 0
        self._weight = 0

    def keep(self, client_id: str, address: str, membership: Membership) -> bool:
        """Keep the place of a member that has left, if it wants that and there is room for it.

        If too many of its group are away then, the place of the one that left first is given up.

        Returns:
            Whether the group is as it was.
        """
        if not membership.keep_seconds:
            return False
        group = membership.consumer_group
        self._pop(group, client_id)
        if self._count >= COUNT_MAX or self._weight + membership.weight > WEIGHT_MAX:
            return False
        until = self._monotonic() + membership.keep_seconds
        absent = AbsentMember(client_id, address, membership, until)
        members = self._groups.setdefault(group, {})
        members[client_id] = absent
        self._count += 1
        self._weight += membership.weight
        if len(members) <= OF_GROUP_MAX:
            return True
        self._pop(group, next(iter(members)))
        return False

    def take_back(self, client_id: str, membership: Membership) -> bool:
        """End the absence of a member; returns whether it is back as it was."""
        absent = self._pop(membership.consumer_group, client_id)
        return absent is not None and _same(absent.membership, membership)

    def of_group(self, consumer_group: str) -> list[AbsentMember]:
        """The absent members of a group."""
        return list(self._groups.get(consumer_group, {}).values())

    def end_due(self) -> Iterator[str | None]:
        """Forget members that have been away for too long.

        Yields the group of each; None for each other one.
        """
        now = self._monotonic()
        for group in list(self._groups):
            for absent in self.of_group(group):
                due = absent.until <= now and self._pop(group, absent.client_id) is not None
                yield group if due else None

    def _pop(self, consumer_group: str, client_id: str) -> AbsentMember | None:
        members = self._groups.get(consumer_group, {})
        absent = members.pop(client_id, None)
        if absent is None:
            return None
        if not members:
            del self._groups[consumer_group]
        self._count -= 1
        self._weight -= absent.membership.weight
        return absent


def _same(one: Membership, other: Membership) -> bool:
    """Whether two memberships are equal but for the queues that are owned now."""
    return replace(one, owned=()) == replace(other, owned=())
