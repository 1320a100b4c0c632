"""How the members of a group share the message queues of a topic.

Every member computes the same division from the same input, without talking to the others: sorted
queues and sorted client ids, and for some strategies what brokers know of the members. Members of
one group that name different strategies are refused, since their divisions would not fit.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """What brokers and name servers know when queues are divided.

    Attributes:
        queues: All queues of the topic, sorted.
        client_ids: All members, sorted.
        broker_zones: Machine room by broker name; a broker that tells none is left out.
        member_zones: Machine room by client id, likewise.
        owners: Client id by queue, of what members say that they own now; nothing unless the
            strategy has an attribute ``needs_owners`` that is true.
    """

    queues: Sequence[MessageQueue]
    client_ids: Sequence[str]
    broker_zones: Mapping[str, str] = field(default_factory=dict)
    member_zones: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[MessageQueue, str] = field(default_factory=dict)


@runtime_checkable
class InformedStrategy(Protocol):
    """A strategy that looks at more than names."""

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
    """Queues go round the members like cards; shares differ by at most one.

    ::

        queues   0 1 2 3 4
        members  A B A B A

    Queues of one broker come to many members. RocketMQ: ``AllocateMessageQueueAveragelyByCircle``.
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
    """Each member has the queues that its configuration names, whoever else is there.

    Nobody sees to it that every queue is named once. RocketMQ: ``AllocateMessageQueueByConfig``.
    """

    name = "configured"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        """Always give the member these queues.

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
