"""The clients that are attached to this broker, and their memberships of groups.

Each client has an outbox of notices, which its stream sends.

When a client joins or leaves a group or changes its membership, all other members are notified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ariane_broker.clients.attached_client import AttachedClient, Hello
from ariane_broker.clients.members.absent_members import AbsentMember, AbsentMembers
from ariane_broker.clients.members.members_by_group import MembersByGroup, put
from ariane_broker.clients.members.membership import ConsumeModel, Membership
from ariane_broker.clients.members.unattached_receivers import UnattachedReceivers
from ariane_broker.clients.outbox import MembershipChanged, Notice, Outbox
from ariane_broker.clients.subscription import Subscription
from ariane_broker.errors.public_errors import client_id_taken, subscription_conflict
from ariane_broker.filters.expression import ALL_MESSAGES, FilterExpression
from ariane_record.names import retry_topic
from ariane_servicekit import Clock
from ariane_servicekit.rpc.calls import current_caller


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """One side of a conflict."""

    client_id: str
    """The client."""
    address: str
    """Its address, as the broker sees it; empty when it is not attached."""
    membership: Membership
    """Its membership."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two members of a group with different subscriptions."""

    member: ConflictSide
    """The earlier member."""
    newcomer: ConflictSide
    """The later member."""
    difference: str
    """The difference in words."""


class ClientTable:
    """All attached clients."""

    def __init__(
        self,
        clock: Clock,
        *,
        flags_conflicts: Callable[[str], bool],
        on_conflict: Callable[[Conflict, bool], None] = lambda _conflict, _refused: None,
        receiver_silence_seconds: float = 30.0,
    ) -> None:
        """Start without clients.

        ``flags_conflicts`` tells whether a group admits members with different subscriptions.
        ``on_conflict`` is called with each conflict, and whether the newcomer is refused.
        After ``receiver_silence_seconds`` without a call, a client that is not attached counts as
        gone.
        """
        self._clock = clock
        self._flags_conflicts = flags_conflicts
        self._on_conflict = on_conflict
        self._clients: dict[str, AttachedClient] = {}
        self._members: MembersByGroup = {}
        self._owners: MembersByGroup = {}
        self._absent = AbsentMembers(clock.monotonic)
        self._receivers = UnattachedReceivers(
            monotonic=clock.monotonic, silence_seconds=receiver_silence_seconds
        )

    def __len__(self) -> int:
        return len(self._clients)

    def all(self) -> list[AttachedClient]:
        """All clients by id."""
        return [self._clients[client_id] for client_id in sorted(self._clients)]

    def walk(self, consumer_group: str = "") -> Iterator[AttachedClient]:
        """All clients as they are now, or the members of a group; in any order."""
        members = self._members.get(consumer_group, {}) if consumer_group else self._clients
        return iter(list(members.values()))

    def absent(self, consumer_group: str) -> list[AbsentMember]:
        """The members of a group that are away for a moment."""
        return self._absent.of_group(consumer_group)

    def find(self, client_id: str) -> AttachedClient | None:
        """The client, or None when it is not attached here."""
        return self._clients.get(client_id)

    def membership(self, consumer_group: str, client_id: str) -> Membership | None:
        """A client's membership of a group, or None."""
        client = self._clients.get(client_id)
        return None if client is None else client.memberships.get(consumer_group)

    def members(self, consumer_group: str) -> list[AttachedClient]:
        """The members of a group by client id."""
        members = self._members.get(consumer_group, {})
        return [members[client_id] for client_id in sorted(members)]

    def owners(self, consumer_group: str) -> Collection[AttachedClient]:
        """The members of a group that read queues themselves, and do not receive."""
        return self._owners.get(consumer_group, {}).values()

    def attach(self, hello: Hello, address: str, outbox: Outbox | None = None) -> AttachedClient:
        """Add a client; ``outbox`` takes the notices to one that is here by way of a gateway.

        Raises:
            ServiceError: CLIENT_NOT_ATTACHED if another live client has the id, or
                SUBSCRIPTION_CONFLICT. Then nothing has changed.
        """
        if hello.client_id in self._clients:
            raise client_id_taken(hello.client_id)
        self._check_agreement(hello.client_id, address, hello.memberships)
        now_ms = self._clock.now_ms()
        client = AttachedClient(
            client_id=hello.client_id,
            language=hello.language,
            sdk_version=hello.sdk_version,
            producer_groups=hello.producer_groups,
            memberships=MappingProxyType({}),
            address=address,
            attach_time_ms=now_ms,
            last_heard_ms=now_ms,
            last_heard=self._clock.monotonic(),
            outbox=outbox or Outbox(),
            is_relayed=outbox is not None,
            incarnation=hello.incarnation,
            caller=current_caller(),
        )
        self._clients[client.client_id] = client
        self._join(client, hello.memberships)
        return client

    def note_heartbeat(self, client: AttachedClient) -> None:
        """Note a heartbeat of a client."""
        client.last_heard_ms = self._clock.now_ms()
        client.last_heard = self._clock.monotonic()

    def since_holds_ms(self, client: AttachedClient) -> int:
        """Milliseconds since a client last reported the queues that it hands out nothing of."""
        return round((self._clock.monotonic() - client.holds_reported_s) * 1000)

    def change_memberships(
        self, client: AttachedClient, memberships: tuple[Membership, ...]
    ) -> None:
        """Replace all memberships of a client, unless it was detached meanwhile.

        Raises:
            ServiceError: SUBSCRIPTION_CONFLICT. Then nothing has changed.
        """
        if not self.is_attached(client):
            return
        if not client.is_relayed:
            self._check_agreement(client.client_id, client.address, memberships)
        self._join(client, memberships)

    def is_attached(self, client: AttachedClient) -> bool:
        """Whether the client was not detached yet."""
        return self._clients.get(client.client_id) is client

    def detach(self, client: AttachedClient) -> None:
        """Remove a client that has left or counts as dead. Repeating is harmless."""
        if self.is_attached(client):
            for group in self._remove(client):
                self.notify_others(group, client.client_id)

    def expire(self, silence_seconds_max: float) -> Iterator[AttachedClient | None]:
        """Detach clients that have been silent for longer, in turns; yields them.

        Members that have been away for too long are forgotten, too.

        None for each other thing that is examined. However many members a group loses, those that
        it keeps are notified once, in the end.
        """
        oldest = self._clock.monotonic() - silence_seconds_max
        left: dict[str, None] = {}
        for client in list(self._clients.values()):
            if client.last_heard < oldest and self.is_attached(client):
                left.update(dict.fromkeys(self._remove(client)))
                yield client
            else:
                yield None
        for ended in self._absent.end_due():
            if ended is not None:
                left[ended] = None
            yield None
        for group in left:
            for member in list(self._members.get(group, {}).values()):
                member.outbox.put(MembershipChanged(group))
                yield None

    def notify_members(self, consumer_group: str, notice: Notice) -> int:
        """Put a notice into the outbox of each member; return their number."""
        members = self._members.get(consumer_group, {})
        for member in members.values():
            member.outbox.put(notice)
        return len(members)

    def notify_others(self, consumer_group: str, client_id: str) -> None:
        """Have all other members of a group look again at what they may own."""
        for member in self._members.get(consumer_group, {}).values():
            if member.client_id != client_id:
                member.outbox.put(MembershipChanged(consumer_group))

    def notify_all(self, notice: Notice) -> None:
        """Put a notice into the outbox of each client."""
        for client in self._clients.values():
            client.outbox.put(notice)

    def close(self) -> None:
        """End all streams once their outboxes are empty."""
        for client in self._clients.values():
            client.outbox.close()

    def check_pull(
        self,
        consumer_group: str,
        client_id: str,
        topics: Iterable[str],
        filters: Mapping[str, FilterExpression],
    ) -> None:
        """Refuse a pull with other filters than the group's members have.

        An attached client is compared with its own membership, any other with the member that has
        been attached for longest.

        Raises:
            ServiceError: SUBSCRIPTION_CONFLICT.
        """
        member = self._compared(consumer_group, client_id)
        if member is None:
            return
        wanted = member.wanted[consumer_group]
        for topic in topics:
            expression = filters.get(topic, ALL_MESSAGES)
            if wanted.get(topic) == expression.meaning() or topic == retry_topic(consumer_group):
                continue
            subscriptions = tuple(Subscription(name, filters[name]) for name in sorted(filters))
            pulled = Membership(consumer_group=consumer_group, subscriptions=subscriptions)
            conflict = Conflict(
                _side(member, consumer_group),
                ConflictSide(client_id, "", pulled),
                f"pulls other messages of topic {topic!r}",
            )
            self._handle_conflict(conflict)

    def check_receive(
        self,
        consumer_group: str,
        client_id: str,
        filters: Mapping[str, FilterExpression],
        hold_seconds: float,
    ) -> None:
        """Refuse to hand out messages by other filters than other consumers of the group have.

        Also than others of which only such calls are known: of each topic, until nobody has made
        one for a while.

        Raises:
            ServiceError: SUBSCRIPTION_CONFLICT.
        """
        self.check_pull(consumer_group, client_id, filters, filters)
        member = self._members.get(consumer_group, {}).get(client_id)
        if member is not None and not member.is_relayed:
            return
        own = _receiver(consumer_group, client_id, filters)
        self._check_receivers(own)
        self._receivers.note(consumer_group, client_id, filters, hold_seconds)

    def _compared(self, consumer_group: str, client_id: str) -> AttachedClient | None:
        """The member that says what a client may ask for; None if nobody does."""
        members = self._members.get(consumer_group, {})
        own = members.get(client_id)
        if own is not None and not own.is_relayed:
            return own
        return next((each for each in members.values() if not each.is_relayed), None)

    def _check_receivers(self, newcomer: ConflictSide) -> None:
        group = newcomer.membership.consumer_group
        filters = {each.topic: each.filter for each in newcomer.membership.subscriptions}
        for topic, known in self._receivers.differing(group, filters):
            earlier = _receiver(group, known.client_id, {topic: known.expression})
            difference = f"wants other messages of topic {topic!r}"
            self._handle_conflict(Conflict(earlier, newcomer, difference))

    def conflicts(self) -> Iterator[Conflict | None]:
        """Admitted members that differ from the member that has been attached for longest.

        None for each other member. Between two of them, members may leave.
        """
        for group, members in list(self._members.items()):
            attached = [each for each in members.values() if not each.is_relayed]
            for member in attached:
                first = attached[0]
                if group in first.memberships and group in member.memberships:
                    yield self._conflict(first, _side(member, group))
                else:
                    yield None

    def _check_agreement(
        self, client_id: str, address: str, memberships: Iterable[Membership]
    ) -> None:
        for membership in memberships:
            newcomer = ConflictSide(client_id, address, membership)
            if membership.model is ConsumeModel.RECEIVING:
                self._check_receivers(newcomer)
            for member in self._members.get(membership.consumer_group, {}).values():
                if member.is_relayed:
                    continue
                conflict = self._conflict(member, newcomer)
                if conflict is not None and member.client_id != client_id:
                    self._handle_conflict(conflict)
                    break

    def _conflict(self, member: AttachedClient, newcomer: ConflictSide) -> Conflict | None:
        group = newcomer.membership.consumer_group
        difference = newcomer.membership.difference(member.memberships[group])
        return Conflict(_side(member, group), newcomer, difference) if difference else None

    def _handle_conflict(self, conflict: Conflict) -> None:
        """Refuse the newcomer, unless its group admits it.

        Raises:
            ServiceError: SUBSCRIPTION_CONFLICT.
        """
        group = conflict.newcomer.membership.consumer_group
        refused = not self._flags_conflicts(group)
        self._on_conflict(conflict, refused)
        if refused:
            raise subscription_conflict(group, conflict.member.client_id, conflict.difference)

    def _remove(self, client: AttachedClient) -> list[str]:
        """Remove a client, and return the groups that it has left."""
        del self._clients[client.client_id]
        self._receivers.forget(client.client_id)
        client.outbox.close()
        kept = {
            group
            for group, membership in client.memberships.items()
            if self._absent.keep(client.client_id, client.address, membership)
        }
        return [group for group in self._change(client, ()) if group not in kept]

    def _join(self, client: AttachedClient, memberships: tuple[Membership, ...]) -> None:
        changed = self._change(client, memberships)
        back = {
            membership.consumer_group
            for membership in memberships
            if self._absent.take_back(client.client_id, membership)
        }
        for group in changed:
            if group not in back:
                self.notify_others(group, client.client_id)

    def _change(self, client: AttachedClient, memberships: tuple[Membership, ...]) -> list[str]:
        """Give a client these memberships; returns the groups in which they differ."""
        before = client.memberships
        after = {membership.consumer_group: membership for membership in memberships}
        client.memberships = MappingProxyType(after)
        client.wanted = {group: membership.wanted() for group, membership in after.items()}
        client.weight = sum(membership.weight for membership in memberships)
        changed = [
            group
            for group in sorted(before.keys() | after.keys())
            if before.get(group) != after.get(group)
        ]
        for group in changed:
            now = after.get(group)
            put(self._members, group, client, is_in=now is not None)
            owns = now is not None and now.model is not ConsumeModel.RECEIVING
            put(self._owners, group, client, is_in=owns)
        return changed


def _receiver(
    consumer_group: str, client_id: str, filters: Mapping[str, FilterExpression]
) -> ConflictSide:
    """A consumer of which only its calls are known."""
    subscriptions = tuple(Subscription(topic, filters[topic]) for topic in sorted(filters))
    membership = Membership(
        consumer_group=consumer_group, model=ConsumeModel.RECEIVING, subscriptions=subscriptions
    )
    return ConflictSide(client_id, "", membership)


def _side(client: AttachedClient, consumer_group: str) -> ConflictSide:
    return ConflictSide(client.client_id, client.address, client.memberships[consumer_group])
