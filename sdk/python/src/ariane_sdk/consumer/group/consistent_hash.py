"""Sharing queues by a hash ring: few queues move when members join and leave."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import md5
from typing import Final

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message_queue import MessageQueue

VIRTUAL_NODES_DEFAULT: Final = 10

_RING_BYTES: Final = 4
"""Points of the ring are the first four bytes of an MD5, big-endian."""


class ConsistentHash:
    """Each member has many points on a ring; a queue belongs to the next point behind its own.

    When a member leaves, only its queues move; shares may differ much. RocketMQ:
    ``AllocateMessageQueueConsistentHash``, with the same points and therefore the same shares.
    """

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES_DEFAULT) -> None:
        """Set how many points each member has.

        Args:
            virtual_nodes: At least one; more make shares more even.

        Raises:
            IllegalArgument: The number is less than one.
        """
        if virtual_nodes < 1:
            raise IllegalArgument("virtual_nodes is at least 1")
        self._virtual_nodes = virtual_nodes
        self.name = f"consistent-hash-{virtual_nodes}"
        """Includes the number of points, since members with different numbers would not fit."""

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The queues of one member; none if it is not among the members."""
        # If two points are equal, the later one counts, as in RocketMQ's map.
        ring = {
            _point(f"{member}-{node}"): member
            for member in client_ids
            for node in range(self._virtual_nodes)
        }
        points = sorted(ring)
        return [queue for queue in queues if ring[_next_point(points, queue)] == client_id]


def _next_point(points: Sequence[int], queue: MessageQueue) -> int:
    # RocketMQ hashes this text of a queue in Java.
    text = (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name},"
        f" queueId={queue.queue_id}]"
    )
    return points[bisect_left(points, _point(text)) % len(points)]


def _point(text: str) -> int:
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:_RING_BYTES], "big")
