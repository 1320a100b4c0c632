"""Clients that are reached by way of gateways, which are attached for them.

A gateway tells of many clients over its own stream. One client may be heard of by several gateways;
questions to it take the way of the one that last said that it can reach it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ariane_broker.clients.attached_client import AttachedClient, Hello
from ariane_broker.clients.client_admission import ClientAdmission
from ariane_broker.clients.client_id import check_client_id
from ariane_broker.clients.client_questions import ClientQuestions
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.members.membership import ConsumeModel, Membership
from ariane_broker.clients.outbox import (
    ClientStateAsked,
    ConsumptionAsked,
    ForRelayed,
    Notice,
    Outbox,
    TransactionAsked,
)
from ariane_servicekit import ServiceError, field_invalid, get_logger
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate.asking import may_consume, relayed_caller
from ariane_storage.errors import StorageError

_log = get_logger(__name__)


class Relayed(NamedTuple):
    """A client, as a gateway tells of it."""

    hello: Hello
    """What it would say itself."""
    address: str
    """Its address, as the gateway sees it."""
    reachable: bool
    """Whether the gateway can tell it something."""
    user: str = ""
    """Its user, as the gateway says; empty if that is not known."""


class RelayedOutbox(Outbox):
    """Notices to a relayed client: questions go the way of a gateway, all others are dropped.

    It owns no queues, so that nothing else concerns it.
    """

    def __init__(self, client_id: str) -> None:
        super().__init__()
        self._client_id = client_id
        self.gateways: dict[AttachedClient, bool] = {}
        """Those that hear of the client, and whether each can reach it; the latest last."""

    @property
    def is_open(self) -> bool:
        """Whether a gateway can reach the client."""
        return any(self.gateways.values())

    def put(self, notice: Notice) -> None:
        """Hand a question to the gateway that last could reach the client."""
        if not isinstance(notice, ClientStateAsked | ConsumptionAsked | TransactionAsked):
            return
        for gateway, reachable in reversed(self.gateways.items()):
            if reachable:
                gateway.outbox.put(ForRelayed(self._client_id, notice))
                return


class RelayedClients:
    """The clients that one attached gateway tells of."""

    def __init__(
        self,
        gateway: AttachedClient,
        table: ClientTable,
        admission: ClientAdmission,
        questions: ClientQuestions,
    ) -> None:
        self._gateway = gateway
        self._table = table
        self._admission = admission
        self._questions = questions
        self._clients: dict[str, AttachedClient] = {}

    def find(self, client_id: str) -> AttachedClient | None:
        """A client of this gateway."""
        return self._clients.get(client_id)

    async def note_present(self, relayed: Relayed) -> None:
        """Note that a client of the gateway is alive, and what it does now.

        A client whose id a client has that attached itself, or that of another user, is left out.
        One that its group does not admit, or whose new group cannot be kept as the disk is full, is
        a client all the same, and a member of nothing: the stream is that of many others, too.

        Raises:
            ServiceError: FIELD_INVALID.
        """
        hello, caller = relayed.hello, relayed_caller(relayed.user, relayed.address)
        if not hello.client_id:
            raise field_invalid("relayed_clients.hello.client_id", "must be set")
        check_client_id(hello.client_id, "relayed_clients.hello.client_id")
        if any(each.model is not ConsumeModel.RECEIVING for each in hello.memberships):
            raise field_invalid("relayed_clients.hello.memberships", "must be of receivers")
        client = self._table.find(hello.client_id)
        if client is None:
            outbox = RelayedOutbox(hello.client_id)
            empty = replace(hello, producer_groups=(), memberships=())
            client = await self._admission.attach(empty, relayed.address, outbox)
        elif isinstance(client.outbox, RelayedOutbox) and not _are_two(client.caller, caller):
            outbox = client.outbox
        else:
            return
        client.caller = caller
        admitted = filter(partial(_may_be, caller), hello.memberships)
        hello = replace(hello, memberships=tuple(admitted))
        outbox.gateways.pop(self._gateway, None)
        outbox.gateways[self._gateway] = relayed.reachable
        self._clients[hello.client_id] = client
        self._table.note_heartbeat(client)
        if relayed.reachable:
            client.language, client.sdk_version = hello.language, hello.sdk_version
            client.producer_groups = hello.producer_groups
            try:
                await self._admission.change_memberships(client, hello.memberships)
            except (ServiceError, StorageError, OSError) as error:
                _log.info("relayed_member_refused", client=client.client_id, cause=str(error))
        elif not outbox.is_open:
            client.producer_groups = ()

    def note_left(self, client_id: str) -> None:
        """Note that a client has left by itself: it is gone, whatever other gateways report."""
        client = self._clients.pop(client_id, None)
        if client is not None:
            self._questions.left(client)
            self._table.detach(client)

    def note_silent(self, client_ids: Iterable[str]) -> Iterator[None]:
        """Note that the gateway has lost these clients, in turns."""
        for client_id in client_ids:
            client = self._clients.pop(client_id, None)
            if client is not None:
                self._lose(client)
            yield None

    def note_heartbeat(self) -> Iterator[None]:
        """Note a heartbeat of the gateway, which is one of all its clients, in turns."""
        for client in list(self._clients.values()):
            self._table.note_heartbeat(client)
            yield None

    def close(self) -> None:
        """The gateway is gone."""
        for client in self._clients.values():
            self._lose(client)
        self._clients.clear()

    def _lose(self, client: AttachedClient) -> None:
        if isinstance(client.outbox, RelayedOutbox):
            client.outbox.gateways.pop(self._gateway, None)
            if not client.outbox.is_open:
                self._questions.left(client)
                client.producer_groups = ()
            if not client.outbox.gateways:
                self._table.detach(client)


def _are_two(one: Caller | None, other: Caller | None) -> bool:
    """Whether two callers are different users, where both are known to be users."""
    users = [each for each in (one, other) if each is not None and each.kind is CallerKind.USER]
    return len({each.name for each in users}) > 1


def _may_be(caller: Caller | None, membership: Membership) -> bool:
    """Whether a client's user may consume so: what the gateway let in is judged here again."""
    topics = (subscription.topic for subscription in membership.subscriptions)
    return may_consume(caller, membership.consumer_group, topics)
