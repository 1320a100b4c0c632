"""Sharing queues with the fewest moves: each member keeps as many as an even division allows.

What members remember differs; the brokers' record of owners does not. So every member starts from
that record, for its own queues too: the same input gives the same division. A member that read the
record before another member's change divides otherwise for a moment, is notified of the change, and
divides anew. Dividing a finished division changes nothing, so the exchange ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ariane_sdk.consumer.group.allocation import GroupFacts
from ariane_sdk.message_queue import MessageQueue


class Sticky:
    """Shares differ by at most one, and as few queues as possible change hands.

    Members report the queues that they own. Each keeps its own up to an even share; members with
    most keep the larger shares. Queues that are left over or had no owner go to members with too
    few.

    ::

        before   A: 0 1 2 3 4 5    B joins    after   A: 0 1 2    B: 3 4 5
    """

    name = "sticky"
    needs_owners = True

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The queues of one member of a group that owned nothing before."""
        return self.allocate_among(client_id, GroupFacts(queues=queues, client_ids=client_ids))

    def allocate_among(self, client_id: str, facts: GroupFacts) -> Sequence[MessageQueue]:
        """The queues of one member; none if it is not among the members."""
        if client_id not in facts.client_ids:
            return ()
        return divide(facts.queues, facts.client_ids, facts.owners)[client_id]


def divide(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], owners: Mapping[MessageQueue, str]
) -> dict[str, list[MessageQueue]]:
    """The queues of every member, sorted.

    Args:
        queues: All queues, sorted.
        client_ids: All members, sorted; at least one.
        owners: The present owner of each queue; owners that are no members are ignored.
    """
    held: dict[str, list[MessageQueue]] = {member: [] for member in client_ids}
    free = []
    for queue in queues:
        owner = owners.get(queue)
        if owner in held:
            held[owner].append(queue)
        else:
            free.append(queue)
    share, larger_count = divmod(len(queues), len(client_ids))
    # The sort is stable: among members with equal numbers, the first get the larger shares.
    by_held = sorted(client_ids, key=lambda member: -len(held[member]))
    sizes = {member: share + (position < larger_count) for position, member in enumerate(by_held)}
    for member in client_ids:
        free += held[member][sizes[member] :]
        del held[member][sizes[member] :]
    free.sort(reverse=True)
    for member in client_ids:
        while len(held[member]) < sizes[member]:
            held[member].append(free.pop())
        held[member].sort()
    return held
