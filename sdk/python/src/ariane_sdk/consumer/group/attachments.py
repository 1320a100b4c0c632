"""A consumer's attachments: one to each broker of its topics, with its membership of the group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from ariane.broker.v1.client_question_pb2 import QueueHold
from ariane.broker.v1.client_service_pb2 import AttachResponse, Membership
from ariane_sdk.client.attachment import Attachment
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.errors import CallError, DeadlinePassed
from ariane_sdk.net.connections import Connections
from ariane_sdk.routing.route import Route
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.tasks import start_task

GOODBYE_TIMEOUT_S: Final = 1.0
"""How long a broker may take to end the stream of a consumer that leaves."""

PATIENCE_CALLS: Final = 3
"""While no broker has answered, a starting consumer waits for the time of this many calls."""


class Attachments:
    """Keeps a member attached to the present address of each broker of its topics, and no other."""

    def __init__(
        self,
        membership: Membership,
        connections: Connections,
        *,
        client_id: str,
        incarnation: str = "",
        clock: Clock,
        call_timeout_s: float,
        on_notice: Callable[[str, AttachResponse], None],
        on_fatal: Callable[[CallError], None],
        on_turn: Callable[[], None],
        answers: OperatorAnswers,
        holds: Callable[[str], Sequence[QueueHold]] = lambda _broker_name: (),
    ) -> None:
        """Attach to no broker yet; arguments as of ``Attachment``, for each broker."""
        self.membership = membership
        """The membership that was reported to brokers last."""
        self._connections = connections
        self._client_id = client_id
        self._incarnation = incarnation
        self._clock = clock
        self._call_timeout_s = call_timeout_s
        self._on_notice = on_notice
        self._on_fatal = on_fatal
        self._on_turn = on_turn
        self._answers = answers
        self._holds = holds
        self._by_broker: dict[str, Attachment] = {}
        self._farewells: dict[asyncio.Task[None], None] = {}
        self._closed = False

    @property
    def broker_names(self) -> Collection[str]:
        """The brokers that the member is, or tries to be, attached to."""
        return self._by_broker.keys()

    def is_attached(self, broker_name: str) -> bool:
        """Whether a broker has admitted the member, and has not gone since."""
        attachment = self._by_broker.get(broker_name)
        return attachment is not None and attachment.attached

    def send_holds(self) -> None:
        """Report what is not handed out to each broker for which that has changed."""
        for attachment in self._by_broker.values():
            attachment.send_holds()

    def say_offsets_stored(self, broker_name: str) -> None:
        """Tell a broker that goes that it need not wait for offsets any longer."""
        if broker_name in self._by_broker:
            self._by_broker[broker_name].say_offsets_stored()

    def follow(self, routes: Iterable[Route]) -> None:
        """Attach to the brokers of these routes, and leave brokers that are in none, or moved.

        If routes name different addresses of a broker, the first one counts. After ``close`` it
        does nothing: nobody would close what it made.
        """
        if self._closed:
            return
        wanted: dict[str, str] = {}
        for broker in (broker for route in routes for broker in route.brokers):
            if broker.read_address:
                wanted.setdefault(broker.broker_name, broker.read_address)
        for name, attachment in list(self._by_broker.items()):
            if wanted.get(name) != attachment.address or attachment.ended:
                del self._by_broker[name]
                farewell = start_task(attachment.close(GOODBYE_TIMEOUT_S), f"farewell-{name}")
                self._farewells[farewell] = None
                farewell.add_done_callback(self._farewells.pop)
        for name in [name for name in wanted if name not in self._by_broker]:
            self._by_broker[name] = Attachment(
                name,
                wanted[name],
                self._connections,
                client_id=self._client_id,
                incarnation=self._incarnation,
                membership=self.membership,
                clock=self._clock,
                on_notice=self._on_notice,
                on_fatal=self._on_fatal,
                on_turn=self._on_turn,
                answers=self._answers,
                holds=self._holds,
            )

    def change(self, membership: Membership) -> None:
        """Report the membership to all brokers, if it has changed."""
        if membership != self.membership:
            self.membership = membership
            for attachment in self._by_broker.values():
                attachment.change_membership(membership)

    async def wait_tried(self) -> CallError | None:
        """Wait until every broker has been tried, or time is up.

        While no broker has answered, the limit is the time of several calls: for the first member
        of a group, brokers write files and call name servers, which takes long on a busy machine.

        Returns:
            Why no broker has admitted the member; None if one has.
        """
        attachments = list(self._by_broker.values())
        if not attachments:
            return CallError("no broker of the topics has an address")
        timeout_s = self._call_timeout_s
        tries = [start_task(each.wait_tried(), f"tried-{each.broker_name}") for each in attachments]
        try:
            done, _ = await asyncio.wait(tries, timeout=timeout_s)
            if not done:
                more_s = (PATIENCE_CALLS - 1) * timeout_s
                await asyncio.wait(tries, timeout=more_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tries:
                task.cancel()
        if any(attachment.attached for attachment in attachments):
            return None
        for attachment in attachments:
            if attachment.error is not None:
                return attachment.error
        return DeadlinePassed(
            f"no broker of the topics answered in {PATIENCE_CALLS * timeout_s:g} s", retriable=True
        )

    async def close(self) -> None:
        """Detach from all brokers."""
        self._closed = True
        await asyncio.gather(
            *(attachment.close(GOODBYE_TIMEOUT_S) for attachment in self._by_broker.values()),
            *self._farewells,
        )
