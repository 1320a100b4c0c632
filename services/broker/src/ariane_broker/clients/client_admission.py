"""Decides which clients may attach, and with which memberships."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from ariane_broker.clients.attached_client import AttachedClient, Hello
from ariane_broker.clients.client_id import check_client_id
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.members.membership import ConsumeModel, Membership
from ariane_broker.clients.outbox import Outbox
from ariane_broker.errors.public_errors import broker_draining, clients_too_heavy
from ariane_broker.filters.filter import check_filter
from ariane_broker.groups.group_changes import GroupChanges
from ariane_record.names import retry_topic
from ariane_servicekit import field_invalid
from ariane_servicekit.rpc.calls import current_caller
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_wire.transport.peers import host_of

GROUPS_MAX: Final = 1024
SUBSCRIPTIONS_MAX: Final = 1024
WORD_LENGTH_MAX: Final = 255
"""Characters of each word that a client says of itself: all are kept for as long as it is here, and
who may not do anything may attach as well."""

PRODUCER_GROUPS_LENGTH_MAX: Final = 64 << 10
"""Characters of the names of all producer groups of a client."""

WEIGHT_MAX: Final = 1 << 20
"""What the memberships of a client may say, as ``Membership.weight`` has it: all is kept for as
long as it is here."""

HEAVY_WEIGHT: Final = 16 << 10
"""Beyond that a client is heavy. Of others there may be as many as there may be calls.

As much may be said of owned queues besides, which is some 4,000 of them: a member does not become
heavy because others end."""

HEAVY_WEIGHT_MAX: Final = 32 << 20
"""Of all heavy clients together; a quarter of it of those of one user, or of one host where nobody
is asked who he is."""


class ClientAdmission:
    """Checks clients before they are added to the table."""

    def __init__(
        self,
        table: ClientTable,
        groups: GroupChanges,
        *,
        make_topic: Callable[[str], Awaitable[object]],
    ) -> None:
        """``make_topic`` creates a retry topic, so that members find it before a message fails."""
        self._table = table
        self._groups = groups
        self._make_topic = make_topic
        self.draining = False

    async def attach(
        self, hello: Hello, address: str, outbox: Outbox | None = None
    ) -> AttachedClient:
        """Admit a client; ``outbox`` takes the notices to one that is here by way of a gateway.

        Raises:
            ServiceError: FIELD_INVALID, SERVICE_DRAINING, CLIENT_NOT_ATTACHED, SERVICE_BUSY,
                SUBSCRIPTION_CONFLICT, FILTER_EXPRESSION_INVALID or a refusal of a group.
        """
        if self.draining:
            raise broker_draining()
        if not hello.client_id:
            raise field_invalid("hello.client_id", "must be set")
        check_client_id(hello.client_id, "hello.client_id")
        for field in ("language", "sdk_version", "incarnation"):
            _check_word(getattr(hello, field), f"hello.{field}")
        if len(hello.producer_groups) > GROUPS_MAX:
            raise field_invalid("hello.producer_groups", f"must be at most {GROUPS_MAX}")
        if sum(map(len, hello.producer_groups)) > PRODUCER_GROUPS_LENGTH_MAX:
            rule = f"must have at most {PRODUCER_GROUPS_LENGTH_MAX} characters in all"
            raise field_invalid("hello.producer_groups", rule)
        lost = self._groups.lost
        lost.note_started(hello.client_id, hello.incarnation)
        await self._check(hello.client_id, current_caller(), hello.memberships)
        client = self._table.attach(hello, address, outbox)
        lost.note_back(hello.client_id)
        return client

    async def change_memberships(
        self, client: AttachedClient, memberships: tuple[Membership, ...]
    ) -> None:
        """Replace all memberships of a client.

        Raises:
            ServiceError: SUBSCRIPTION_CONFLICT, FILTER_EXPRESSION_INVALID, FIELD_INVALID,
                SERVICE_BUSY or a refusal of a group.
        """
        await self._check(client.client_id, client.caller, memberships)
        self._table.change_memberships(client, memberships)

    async def _check(
        self, client_id: str, caller: Caller | None, memberships: tuple[Membership, ...]
    ) -> None:
        if len(memberships) > GROUPS_MAX:
            raise field_invalid("memberships", f"must be at most {GROUPS_MAX}")
        weight = sum(each.weight for each in memberships)
        if weight > WEIGHT_MAX:
            rule = (
                f"must have {WEIGHT_MAX} characters of names and filters at most, or fewer queues"
            )
            raise field_invalid("memberships", rule)
        if len({membership.consumer_group for membership in memberships}) < len(memberships):
            raise field_invalid("memberships", "must not name a group twice")
        for membership in memberships:
            _check_word(membership.strategy, "memberships.strategy")
            _check_word(membership.zone, "memberships.zone")
            for topic, broker_name, _ in membership.owned:
                _check_word(topic, "memberships.owned_queues.topic")
                _check_word(broker_name, "memberships.owned_queues.broker_name")
            if len(membership.subscriptions) > SUBSCRIPTIONS_MAX:
                raise field_invalid("memberships.subscriptions", f"at most {SUBSCRIPTIONS_MAX}")
            for subscription in membership.subscriptions:
                _check_word(subscription.topic, "memberships.subscriptions.topic")
                check_filter(subscription.filter)
            broadcasting = membership.model is ConsumeModel.BROADCASTING
            await self._groups.admit(
                membership.consumer_group, client_id=client_id, broadcasting=broadcasting
            )
            if not broadcasting:
                await self._make_topic(retry_topic(membership.consumer_group))
        counted = _counted(memberships)
        if counted > HEAVY_WEIGHT:  # At last: meanwhile others may have come.
            self._check_room(client_id, _owner(caller), counted)

    def _check_room(self, client_id: str, owner: str, weight: int) -> None:
        """Refuse a heavy client where there are as many of them as there may be.

        Raises:
            ServiceError: SERVICE_BUSY.
        """
        weights = [
            (counted, each.caller)
            for each in self._table.walk()
            if each.weight > HEAVY_WEIGHT and each.client_id != client_id
            if (counted := _counted(each.memberships.values())) > HEAVY_WEIGHT
        ]
        theirs = sum(counted for counted, caller in weights if _owner(caller) == owner)
        everybody = sum(counted for counted, _ in weights)
        if max(4 * (theirs + weight), everybody + weight) > HEAVY_WEIGHT_MAX:
            raise clients_too_heavy(HEAVY_WEIGHT_MAX)


def _counted(memberships: Collection[Membership]) -> int:
    """How much of what a client says makes it heavy."""
    owned = sum(each.owned_weight for each in memberships)
    return sum(each.weight for each in memberships) - min(owned, HEAVY_WEIGHT)


def _owner(caller: Caller | None) -> str:
    """Whom a client counts for: its user, or the host where nobody is asked who he is."""
    if caller is None:
        return ""
    return caller.name if caller.kind is CallerKind.USER else host_of(caller.peer)


def _check_word(text: str, field: str) -> None:
    if len(text) > WORD_LENGTH_MAX:
        raise field_invalid(field, f"must be at most {WORD_LENGTH_MAX} characters")
