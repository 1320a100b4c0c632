"""How the members of a group share the message queues of a topic.

Every member computes the same division from the same input, without talking to the others: sorted
queues and sorted client ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ariane_sdk._message import MessageQueue


class AllocationStrategy(Protocol):
    """Divides queues among members; all members of a group must use the same."""

    @property
    def name(self) -> str:
        """What members tell one another, such as "averaging"."""
        ...

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The queues of one member.

        Args:
            client_id: The member; one of ``client_ids``.
            queues: All queues of the topic, sorted.
            client_ids: All members, sorted.
        """
        ...


class Averaging:
    """Neighbouring queues go to one member; shares differ by at most one, the first get more.

    ::

        queues   0 1 2 3 4        10 queues, 4 members: 0-2, 3-5, 6-7, 8-9
        members  A A A B B        more members than queues: the last ones get nothing

    RocketMQ: ``AllocateMessageQueueAveragely``, the default of its consumers.
    """

    name = "averaging"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The queues of one member; none if it is not among the members."""
        if client_id not in client_ids:
            return ()
        position = client_ids.index(client_id)
        share, remainder = divmod(len(queues), len(client_ids))
        begin = position * share + min(position, remainder)
        return queues[begin : begin + share + (position < remainder)]
