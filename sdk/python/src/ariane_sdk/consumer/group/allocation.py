"""How the members of a group share the message queues of a topic.

Every member computes the same division from the same input, without messages to the others. The
input is the sorted queues, the sorted client ids, and for some strategies the facts that brokers
have of members. Members of one group that name different strategies are refused, since their
divisions would not fit.

The queues of a group's retry topic are always averaged: a strategy may leave queues without an
owner, and what a member failed on must come again nevertheless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ariane_sdk.message_queue import MessageQueue


class AllocationStrategy(Protocol):
    """Divides queues among members; all members of a group must use the same."""

    @property
    def name(self) -> str:
        """The name that members compare, such as "averaging"."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """The facts that brokers and name servers have when queues are divided."""

    queues: Sequence[MessageQueue]
    """All queues of the topic, sorted."""
    client_ids: Sequence[str]
    """All members, sorted."""
    broker_zones: Mapping[str, str] = field(default_factory=dict)
    """Machine room by broker name; a broker without one is left out."""
    away_zones: Mapping[str, str] = field(default_factory=dict)
    """Machine room, perhaps empty, by the name of each broker that had the topic and is away: it
    has left undrained, within a day, and was not forgotten."""
    member_zones: Mapping[str, str] = field(default_factory=dict)
    """Machine room by client id, likewise."""
    owners: Mapping[MessageQueue, str] = field(default_factory=dict)
    """Client id by queue, for the queues that members report as owned; empty unless the strategy
    has an attribute ``needs_owners`` that is true."""


@runtime_checkable
class InformedStrategy(Protocol):
    """A strategy that uses more facts than names."""

    def allocate_among(self, client_id: str, facts: GroupFacts) -> Sequence[MessageQueue]:
        """The queues of one member."""
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


class CircularAveraging:
    """Queues are dealt to the members in turn; shares differ by at most one.

    ::

        queues   0 1 2 3 4
        members  A B A B A

    Queues of one broker go to many members. RocketMQ: ``AllocateMessageQueueAveragelyByCircle``.
    """

    name = "circular"

    def allocate(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The queues of one member; none if it is not among the members."""
        if client_id not in client_ids:
            return ()
        return queues[client_ids.index(client_id) :: len(client_ids)]


class Configured:
    """Each member has the queues that its configuration names, independent of other members.

    That every queue is named once is not checked. RocketMQ: ``AllocateMessageQueueByConfig``.
    """

    name = "configured"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        """Always allocate these queues to the member.

        Args:
            queues: Of any topics; queues that a topic does not have now are left out.
        """
        self._queues = frozenset(queues)

    def allocate(
        self,
        client_id: str,  # noqa: ARG002 - as every strategy has it.
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],  # noqa: ARG002 - the same.
    ) -> Sequence[MessageQueue]:
        """The configured queues that the topic has."""
        return [queue for queue in queues if queue in self._queues]
