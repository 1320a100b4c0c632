r"""Members whose stream broke without a goodbye, and the messages that may have killed them.

The broker notices of a consumer that a message kills only the end of its stream. Three steps find
the message; each step narrows the messages that the step before it suspected::

    event                    suspected messages                   members then take these
    a first death            all that the member was given        watched: they name what they take
    a death while watched    all that the member had in work      alone: one message at a time
    a death while alone      that one message                     (it counts as a failed try)

A stream may also break by a fault of the network. Therefore only a death while alone counts against
a message, and only after a grace in which the member has not come back under its name. No member
gets the message during the grace. A member that comes back in time ends the suspicions that its
absence had raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.deaths.client_work import ClientWork, GroupQueue
from ariane_broker.clients.deaths.suspicions import Suspicion, Suspicions
from ariane_broker.clients.members.membership import ConsumeModel
from ariane_broker.durable.saved_state import SavedState
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.statistics import BrokerStatistics
from ariane_servicekit import get_logger
from ariane_servicekit.observability.logs import LineBudget

_log = get_logger(__name__)

VANISHED_LOGGED_PER_S: Final = 20
"""Members that vanish and are logged in one second: clients may break streams as they like."""

VANISHED_MAX: Final = 10_000
"""Members that may come back; of more, the one that vanished first counts as dead."""

_NOTHING: Final[Mapping[GroupQueue, tuple[Suspicion, Suspicion]]] = {}


class SingleMessageDeath(NamedTuple):
    """A dead member, and the one message that the member had in work."""

    client_id: str
    """The member."""
    place: GroupQueue
    """The group and the queue of the message."""
    queue_offset: int
    """The queue offset of the message."""
    ordered: bool
    """Whether the member consumed in order."""


@dataclass(slots=True)
class _Vanished:
    """A member that may be dead."""

    work: ClientWork
    """The messages that the member had."""
    deadline: float
    """When the member counts as dead, in seconds of the monotonic clock."""
    death: SingleMessageDeath | None
    """The message that the member had alone, if it had one alone."""
    raised: Mapping[GroupQueue, tuple[Suspicion, Suspicion]]
    """The suspicions that its end changed: before and after, by group and queue."""
    incarnation: str
    """That of the client."""


class VanishedMembers:
    """Keeps the work of members, and raises suspicions against messages when members vanish."""

    def __init__(
        self,
        clients: ClientTable,
        offsets: ConsumerOffsets,
        suspicions: Suspicions,
        saved: SavedState,
        *,
        statistics: BrokerStatistics,
        monotonic: Callable[[], float],
        grace_seconds: float,
        deaths_max: int,
    ) -> None:
        """Start without vanished members.

        A member may be away for ``grace_seconds``. A message may cause ``deaths_max`` deaths; with
        0, deaths are not looked at.
        """
        self._clients = clients
        self._offsets = offsets
        self._suspicions = suspicions
        self._saved = saved
        self._statistics = statistics
        self._monotonic = monotonic
        self._grace_seconds = grace_seconds
        self._deaths_max = deaths_max
        self._vanished: dict[str, _Vanished] = {}
        self._certain: list[_Vanished] = []
        self._doubts: dict[GroupQueue, int] = {}
        self._budget = LineBudget(VANISHED_LOGGED_PER_S)

    def handed_out(self, place: GroupQueue, client_id: str, end: int) -> None:
        """Note that a member was given messages of a queue.

        Args:
            place: The group and the queue.
            client_id: The member; clients that are not attached are only noted as alive.
            end: The queue offset behind the last of the messages.
        """
        client = self._clients.find(client_id)
        if client is not None:
            client.work.pulled_ends[place] = end
        else:
            self._lives(client_id)

    def note_offset(
        self,
        place: GroupQueue,
        client_id: str,
        consumer_offset: int,
        in_work_end: int | None,
        *,
        alone: bool,
    ) -> None:
        """Note a stored offset, and the work that the member reports with it.

        Args:
            place: The group and the queue.
            client_id: The client that stores the offset; empty for tools.
            consumer_offset: The offset.
            in_work_end: The queue offset after the last message in work; None if not reported.
            alone: Whether the member has one message in work, and no other in any queue.
        """
        if self._suspicions.passed(place, consumer_offset):
            self._saved.mark_changed()
        client = self._clients.find(client_id)
        if client is not None:
            client.work.report(place, consumer_offset, in_work_end, alone=alone)
        else:
            self._lives(client_id)

    def suspicion(self, place: GroupQueue) -> Suspicion:
        """Return the suspected messages of a queue, which members take with care."""
        return self._suspicions.find(place)

    def in_doubt(self, place: GroupQueue) -> bool:
        """Whether the next message is withheld: a member may have died of it a moment ago."""
        return place in self._doubts

    def vanished(self, client: AttachedClient) -> None:
        """Handle the end of a client's stream that broke without a goodbye."""
        clustering = {
            group: membership
            for group, membership in client.memberships.items()
            if membership.model is ConsumeModel.CLUSTERING
        }
        if not self._deaths_max or not clustering:
            return
        death: SingleMessageDeath | None = None
        raised = _NOTHING
        if client.work.alone is not None:
            # The member had no other message in work, so no other message is suspected.
            place, queue_offset = client.work.alone
            membership = clustering.get(place.consumer_group)
            if membership is not None:
                death = SingleMessageDeath(
                    client.client_id, place, queue_offset, membership.ordered
                )
                self._doubts[place] = self._doubts.get(place, 0) + 1
        else:
            raised = self._raise_suspicions(client.work)
        self._statistics.vanished_member_count += 1
        deadline = self._monotonic() + self._grace_seconds
        self._end_grace(client.client_id)
        if len(self._vanished) >= VANISHED_MAX:
            self._end_grace(next(iter(self._vanished)))
        self._vanished[client.client_id] = _Vanished(
            client.work, deadline, death, raised, client.incarnation
        )
        left_out = self._budget.spend()
        if left_out is None:
            return
        _log.warning(
            "member_vanished",
            client_id=client.client_id,
            address=client.address,
            consumer_groups=sorted(clustering),
            suspected_queues=[f"{place.queue.topic}/{place.queue.queue_id}" for place in raised],
            alone_with=None if death is None else f"{death.place.queue}@{death.queue_offset}",
            **({"suppressed_before": left_out} if left_out else {}),
        )

    def came_back(self, client: AttachedClient) -> None:
        """Handle a client that attached; a vanished member gets its work back."""
        gone = self._vanished.get(client.client_id)
        if gone is None:
            return
        if gone.incarnation != client.incarnation:
            # Another process under the same name: the one that vanished is dead.
            self._end_grace(client.client_id)
            return
        del self._vanished[client.client_id]
        client.work = gone.work
        self._settle_doubt(gone.death)
        for place, (before, after) in gone.raised.items():
            if self._suspicions.find(place) == after:
                self._suspicions.put(place, before)
                self._saved.mark_changed()

    def due_deaths(self) -> list[SingleMessageDeath]:
        """Return members that count as dead now and had one message alone; each of them once.

        The queue of each such message stays in doubt until ``judged``.
        """
        now = self._monotonic()
        due = [name for name, gone in self._vanished.items() if gone.deadline <= now]
        gone = [self._vanished.pop(name) for name in due] + self._certain
        self._certain = []
        return [each.death for each in gone if each.death is not None]

    def judged(self, death: SingleMessageDeath) -> None:
        """Let a queue be consumed again, after the message of a death was dealt with."""
        self._settle_doubt(death)

    def _end_grace(self, client_id: str) -> None:
        """Take a vanished member, if there is one of this id, for dead."""
        gone = self._vanished.pop(client_id, None)
        if gone is not None:
            self._certain.append(gone)

    def _raise_suspicions(
        self, work: ClientWork
    ) -> Mapping[GroupQueue, tuple[Suspicion, Suspicion]]:
        raised = {}
        for place, pulled_end in work.pulled_ends.items():
            consumer_offset = self._offsets.find(*place)
            if consumer_offset is None or pulled_end <= consumer_offset:
                continue
            before = self._suspicions.find(place)
            after = replace(
                before,
                watched_end=max(before.watched_end, pulled_end),
                alone_end=max(before.alone_end, work.reported_ends.get(place, 0)),
            )
            raised[place] = (before, after)
            self._suspicions.put(place, after)
            self._saved.mark_changed()
        return raised

    def _settle_doubt(self, death: SingleMessageDeath | None) -> None:
        if death is None:
            return
        left = self._doubts.pop(death.place, 0) - 1
        if left > 0:
            self._doubts[death.place] = left

    def _lives(self, client_id: str) -> None:
        """Grant a vanished member a new grace: its request shows that the member lives."""
        gone = self._vanished.get(client_id)
        if gone is not None:
            gone.deadline = self._monotonic() + self._grace_seconds
