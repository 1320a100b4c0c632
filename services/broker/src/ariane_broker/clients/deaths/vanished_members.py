r"""Members of groups whose stream broke without a goodbye, and what that says of their messages.

A consumer that a message kills leaves nothing but the end of its stream. Three steps find the
message, each for the rest that the one before has left::

    some death               all that the member was given        watched: they say what they take
    a death while watched    all that it had in work then         alone: one at a time, nothing else
    a death while alone      that one message                     a try that failed

A broken stream may also be the network's fault. So only the last kind is held against a message,
after a grace in which the member has not come back under its name; until then nobody gets the
message. A member that comes back in time takes its suspicions along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.deaths.client_work import ClientWork, GroupQueue
from ariane_broker.clients.deaths.suspicions import Suspicion, Suspicions
from ariane_broker.clients.membership import ConsumeModel
from ariane_broker.durable.saved_state import SavedState
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.statistics import BrokerStatistics
from ariane_servicekit import get_logger

_log = get_logger(__name__)

_NOTHING: Final[Mapping[GroupQueue, tuple[Suspicion, Suspicion]]] = {}


class LonelyDeath(NamedTuple):
    """A member that is dead, and the one message that it had in work.

    Attributes:
        client_id: The member.
        place: Where the message is.
        queue_offset: Of the message.
        ordered: Whether the member consumed in order.
    """

    client_id: str
    place: GroupQueue
    queue_offset: int
    ordered: bool


@dataclass(slots=True)
class _Vanished:
    """A member that may be dead.

    Attributes:
        work: What it had.
        deadline: When it is taken to be dead, by the monotonic clock.
        death: Which message it died of then, if that is known.
        raised: What was suspected before it vanished and after, where that differs.
    """

    work: ClientWork
    deadline: float
    death: LonelyDeath | None
    raised: Mapping[GroupQueue, tuple[Suspicion, Suspicion]]


class VanishedMembers:
    """Knows what members have in work, and what it means when they vanish."""

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
        """Know of nobody.

        Args:
            clients: The attached clients.
            offsets: Where groups stand.
            suspicions: What is suspected.
            saved: Saves it.
            statistics: Counts who vanishes.
            monotonic: Seconds that never go back.
            grace_seconds: How long a member may be away.
            deaths_max: How many deaths a message may cause; 0: deaths are not looked at.
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
        self._doubts: dict[GroupQueue, int] = {}

    def handed_out(self, place: GroupQueue, client_id: str, end: int) -> None:
        """A member was given messages of a queue.

        Args:
            place: The queue.
            client_id: The member; others are not known here.
            end: Behind the last of them.
        """
        client = self._clients.find(client_id)
        if client is not None:
            client.work.pulled_ends[place] = end
        else:
            self._lives(client_id)

    def told(
        self,
        place: GroupQueue,
        client_id: str,
        consumer_offset: int,
        in_work_end: int | None,
        *,
        alone: bool,
    ) -> None:
        """The offset of a queue is stored; with it a member may say what it has in work.

        Args:
            place: The queue.
            client_id: Who stores; empty for tools.
            consumer_offset: The offset.
            in_work_end: Behind the last message in work; None when nobody says.
            alone: Whether that is one message, and nothing else is in work.
        """
        if self._suspicions.passed(place, consumer_offset):
            self._saved.mark_changed()
        client = self._clients.find(client_id)
        if client is not None:
            client.work.tell(place, consumer_offset, in_work_end, alone=alone)
        else:
            self._lives(client_id)

    def suspicion(self, place: GroupQueue) -> Suspicion:
        """What members must beware of in a queue."""
        return self._suspicions.find(place)

    def in_doubt(self, place: GroupQueue) -> bool:
        """Whether it is not known yet if a member died of the next message: nobody may have it."""
        return place in self._doubts

    def vanished(self, client: AttachedClient) -> None:
        """The stream of a client broke without a goodbye."""
        clustering = {
            group: membership
            for group, membership in client.memberships.items()
            if membership.model is ConsumeModel.CLUSTERING
        }
        if not self._deaths_max or not clustering:
            return
        death: LonelyDeath | None = None
        raised = _NOTHING
        if client.work.alone is not None:
            # It had nothing else in work: nothing else is suspected.
            place, queue_offset = client.work.alone
            membership = clustering.get(place.consumer_group)
            if membership is not None:
                death = LonelyDeath(client.client_id, place, queue_offset, membership.ordered)
                self._doubts[place] = self._doubts.get(place, 0) + 1
        else:
            raised = self._raise_suspicions(client.work)
        self._statistics.vanished_member_count += 1
        deadline = self._monotonic() + self._grace_seconds
        self._vanished[client.client_id] = _Vanished(client.work, deadline, death, raised)
        _log.warning(
            "member_vanished",
            client_id=client.client_id,
            address=client.address,
            consumer_groups=sorted(clustering),
            suspected_queues=[f"{place.queue.topic}/{place.queue.queue_id}" for place in raised],
            alone_with=None if death is None else f"{death.place.queue}@{death.queue_offset}",
        )

    def came_back(self, client: AttachedClient) -> None:
        """A client attached; it may be one that vanished."""
        gone = self._vanished.pop(client.client_id, None)
        if gone is None:
            return
        client.work = gone.work
        self._settle_doubt(gone.death)
        for place, (before, after) in gone.raised.items():
            if self._suspicions.find(place) == after:
                self._suspicions.put(place, before)
                self._saved.mark_changed()

    def due_deaths(self) -> list[LonelyDeath]:
        """Members that are dead now and had one message alone in work; each is told once.

        Its queue stays in doubt until ``judged``.
        """
        now = self._monotonic()
        due = [name for name, gone in self._vanished.items() if gone.deadline <= now]
        gone = [self._vanished.pop(name) for name in due]
        return [each.death for each in gone if each.death is not None]

    def judged(self, death: LonelyDeath) -> None:
        """It is decided what a death means: its queue may be consumed."""
        self._settle_doubt(death)

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
                alone_end=max(before.alone_end, work.told_ends.get(place, 0)),
            )
            raised[place] = (before, after)
            self._suspicions.put(place, after)
            self._saved.mark_changed()
        return raised

    def _settle_doubt(self, death: LonelyDeath | None) -> None:
        if death is None:
            return
        left = self._doubts.pop(death.place, 0) - 1
        if left > 0:
            self._doubts[death.place] = left

    def _lives(self, client_id: str) -> None:
        """Who asks for something lives, whatever became of its stream."""
        gone = self._vanished.get(client_id)
        if gone is not None:
            gone.deadline = self._monotonic() + self._grace_seconds
