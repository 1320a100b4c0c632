"""Questions of operators to one live client: for its state, or to consume a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Final

from ariane_broker.clients.client_questions import ClientQuestions
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.outbox import ClientStateAsked, ConsumptionAsked
from ariane_broker.errors.public_errors import client_not_attached
from ariane_record import RecordFields, encode_record
from ariane_record.names import dead_letter_topic
from ariane_servicekit.errors import field_invalid

STATE_SECONDS_DEFAULT: Final = 3.0
STATE_SECONDS_MAX: Final = 30.0
CONSUMPTION_SECONDS_DEFAULT: Final = 10.0
CONSUMPTION_SECONDS_MAX: Final = 60.0

_TELLS_NOTHING: Final = "it tells nothing of itself"
_MAY_CONSUME: Final = "it may be at the message still"


@dataclass(frozen=True, slots=True, eq=False)
class OperatorQuestions:
    """Sends questions of operators to clients, and waits for the answers."""

    clients: ClientTable
    questions: ClientQuestions
    _: KW_ONLY
    message_of: Callable[[str], Awaitable[RecordFields]]
    """Returns the message with an id; raises the errors of ``MessageQuery.by_id``."""

    async def state(self, client_id: str, wait_seconds: float, *, with_stacks: bool) -> Any:
        """Ask a client for its state.

        Args:
            client_id: The client.
            wait_seconds: How long to wait for the answer; 0 means the default.
            with_stacks: Whether to include the stacks of its threads and tasks.

        Raises:
            ServiceError: CLIENT_NOT_ATTACHED, FIELD_INVALID, or CLIENT_SILENT without an
                answer.
        """
        client = self.clients.find(client_id)
        if client is None:
            raise client_not_attached(client_id, "")
        return await self.questions.ask(
            client,
            partial(ClientStateAsked, with_stacks=with_stacks),
            wait_seconds or STATE_SECONDS_DEFAULT,
            wait_seconds_max=STATE_SECONDS_MAX,
            if_silent=_TELLS_NOTHING,
        )

    async def consume(
        self, consumer_group: str, client_id: str, message_id: str, wait_seconds: float
    ) -> Any:
        """Ask a member of a group to consume a message, and return the outcome.

        Args:
            consumer_group: The group.
            client_id: The member.
            message_id: The message.
            wait_seconds: How long to wait for the outcome; 0 means the default.

        Raises:
            ServiceError: CLIENT_NOT_ATTACHED, MESSAGE_NOT_FOUND, FIELD_INVALID, a refusal to
                read the topic, or CLIENT_SILENT without an answer.
            RecordCorrupted: The message is damaged.
        """
        client = self.clients.find(client_id)
        if client is None or consumer_group not in client.memberships:
            raise client_not_attached(client_id, f" as a member of group {consumer_group!r}")
        message = await self.message_of(message_id)
        wanted = {each.topic for each in client.memberships[consumer_group].subscriptions}
        if message.topic not in {*wanted, dead_letter_topic(consumer_group)}:
            rule = f"must be of a message that group {consumer_group!r} subscribes to"
            raise field_invalid("message_id", rule, message_id)
        record = encode_record(message)
        return await self.questions.ask(
            client,
            lambda question_id: ConsumptionAsked(question_id, consumer_group, record),
            wait_seconds or CONSUMPTION_SECONDS_DEFAULT,
            wait_seconds_max=CONSUMPTION_SECONDS_MAX,
            if_silent=_MAY_CONSUME,
        )
