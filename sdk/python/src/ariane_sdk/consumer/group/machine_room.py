"""Sharing queues by machine rooms: members near the broker go first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from ariane_sdk.consumer.group.allocation import (
    AllocationStrategy,
    Averaging,
    GroupFacts,
    InformedStrategy,
)
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message_queue import MessageQueue


class MachineRoom:
    """Only queues of brokers in given rooms are consumed, by all members alike.

    A broker's room is its configured zone, unless a function returns it. The queues of other rooms
    have no owner while there are any in these rooms, or a broker of them is away: a restart is no
    reason to consume what other rooms have kept for weeks. If there are none, all queues are
    consumed: once the last broker of the rooms was drained or forgotten, or is away for a day.
    The zone of a broker with replicas is that of its primary, so its room changes with a failover
    to another zone: list all zones of its set, or return the room by the broker's name.
    RocketMQ: ``AllocateMessageQueueByMachineRoom``, which takes the room from the broker's name,
    and consumes nothing of other rooms.
    """

    def __init__(
        self,
        rooms: Collection[str],
        *,
        broker_room: Callable[[MessageQueue], str] | None = None,
    ) -> None:
        """Set the rooms, and how those of brokers are found.

        Args:
            rooms: The rooms; at least one.
            broker_room: The room of a queue's broker; its zone if not given.

        Raises:
            IllegalArgument: There are none, or they are no texts.
        """
        if not rooms or isinstance(rooms, str) or not all(isinstance(room, str) for room in rooms):
            raise IllegalArgument(f'rooms {rooms!r:.100}: a list such as ["north"] is expected')
        self._rooms = frozenset(rooms)
        self._broker_room = broker_room
        self.name = f"machine-room-{'+'.join(sorted(self._rooms))}"
        """Includes the rooms, since members with different rooms would not fit."""

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The queues of one member, if a function returns the rooms."""
        return self.allocate_among(client_id, GroupFacts(queues=queues, client_ids=client_ids))

    def allocate_among(self, client_id: str, facts: GroupFacts) -> Sequence[MessageQueue]:
        """The queues of one member; none if it is not among the members."""
        client_ids = facts.client_ids
        if client_id not in client_ids:
            return ()
        zones = {**facts.away_zones, **facts.broker_zones}
        broker_room = self._broker_room or (lambda queue: zones.get(queue.broker_name, ""))
        near = [queue for queue in facts.queues if broker_room(queue) in self._rooms]
        if not near and not any(broker_room(queue) in self._rooms for queue in _away(facts)):
            near = list(facts.queues)
        position = client_ids.index(client_id)
        share, remainder = divmod(len(near), len(client_ids))
        own = near[position * share : (position + 1) * share]
        if position < remainder:
            own.append(near[position + share * len(client_ids)])
        return own


class MachineRoomNearby:
    """Queues go to members in the room of their broker, and to all where no member is there.

    Rooms are the configured zones of brokers and consumers, unless functions return them.
    RocketMQ: ``AllocateMachineRoomNearby``.
    """

    def __init__(
        self,
        within: AllocationStrategy | None = None,
        *,
        broker_room: Callable[[MessageQueue], str] | None = None,
        member_room: Callable[[str], str] | None = None,
    ) -> None:
        """Set how a room's queues are shared, and how rooms are found.

        Args:
            within: Divides the queues of one room; averaging if not given.
            broker_room: The room of a queue's broker; its zone if not given.
            member_room: The room of a client id; its zone if not given.
        """
        self._within = within or Averaging()
        self._broker_room = broker_room
        self._member_room = member_room
        self.name = f"machine-room-nearby-{self._within.name}"
        """Includes the strategy within a room."""
        self.needs_owners = bool(getattr(self._within, "needs_owners", False))
        """Whether that strategy needs the owners of queues."""

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The queues of one member, if functions return the rooms."""
        return self.allocate_among(client_id, GroupFacts(queues=queues, client_ids=client_ids))

    def allocate_among(self, client_id: str, facts: GroupFacts) -> Sequence[MessageQueue]:
        """The queues of one member; none if it is not among the members."""
        if client_id not in facts.client_ids:
            return ()
        broker_room = self._broker_room or (
            lambda queue: facts.broker_zones.get(queue.broker_name, "")
        )
        member_room = self._member_room or (lambda member: facts.member_zones.get(member, ""))
        queues: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in facts.queues:
            queues[broker_room(queue)].append(queue)
        members: dict[str, list[str]] = defaultdict(list)
        for member in facts.client_ids:
            members[member_room(member)].append(member)
        own_room = member_room(client_id)
        own = list(self._divide(client_id, queues.pop(own_room, []), members[own_room], facts))
        for room in sorted(queues.keys() - members.keys()):
            own += self._divide(client_id, queues[room], facts.client_ids, facts)
        return own

    def _divide(
        self,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
        facts: GroupFacts,
    ) -> Sequence[MessageQueue]:
        """A member's part of the queues of one room, by the strategy within rooms."""
        if isinstance(self._within, InformedStrategy):
            some = replace(facts, queues=queues, client_ids=client_ids)
            return self._within.allocate_among(client_id, some)
        return self._within.allocate(client_id, queues, client_ids)


def _away(facts: GroupFacts) -> Iterator[MessageQueue]:
    """A queue of each broker that is away."""
    for topic in {queue.topic for queue in facts.queues}:
        for name in facts.away_zones:
            yield MessageQueue(topic, name, 0)
