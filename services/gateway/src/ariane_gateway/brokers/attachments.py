"""The gateway's streams to all brokers: it reports its clients, and brokers ask these questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from ariane.broker.v1.client_question_pb2 import (
    CONSUME_OUTCOME_CONSUMED,
    CONSUME_OUTCOME_REFUSED,
    CONSUME_OUTCOME_RETRY,
    ClientStack,
    ClientState,
    ConsumeAnswer,
)
from ariane.broker.v1.client_service_pb2 import (
    CONSUME_MODEL_RECEIVING,
    TRANSACTION_OUTCOME_COMMIT,
    TRANSACTION_OUTCOME_ROLLBACK,
    AttachRequest,
    AttachResponse,
    ClientHello,
    Membership,
    RelayedClient,
    RelayedClients,
    TransactionAnswer,
)
from ariane_gateway.brokers.cluster import Cluster
from ariane_gateway.brokers.filters import subscription_of
from ariane_gateway.brokers.portrait import Portrait
from ariane_gateway.brokers.questions import Question, question_of
from ariane_gateway.refusals import Refused
from ariane_sdk.client.attachment import Attachment
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.errors import CallError
from ariane_servicekit import get_logger

CLIENTS_TOGETHER_MAX: Final = 512
"""Clients in one request; brokers take 4096."""

BYTES_TOGETHER_MAX: Final = 1 << 20
"""Octets of them, unless a single one has more; brokers take 5 MiB, and end the stream at more."""

STACKS_LENGTH_MAX: Final = 512 << 10
"""Characters of what a client's threads are at; what is behind them is left out."""

WORD_LENGTH_MAX: Final = 1024
"""Characters of any other text of a client in an answer."""

LEAVE_S_MAX: Final = 1.0

ClientT = TypeVar("ClientT")

_log = get_logger(__name__)


class Attachments:
    """One stream to each broker, opened again whenever it ends."""

    def __init__(
        self,
        cluster: Cluster,
        gateway_id: str,
        *,
        everybody: Callable[[], Iterable[Portrait]],
        ask: Callable[[Question], None],
        facts: Callable[[], Mapping[str, str]],
    ) -> None:
        """Attach to nobody yet: see ``follow``.

        Args:
            cluster: The brokers.
            gateway_id: The id under which brokers know the gateway.
            everybody: All clients, for a broker that knows none.
            ask: Takes the questions of brokers.
            facts: What operators learn of the gateway.
        """
        self._cluster = cluster
        self._gateway_id = gateway_id
        self._everybody = everybody
        self._ask = ask
        self._answers = OperatorAnswers(facts=facts)
        self._attachments: dict[str, Attachment] = {}

    async def follow(self) -> None:
        """Attach to brokers that are new or have a new primary; leave those that are gone."""
        try:
            primaries = await self._cluster.primaries()
        except Refused as refused:
            _log.info("brokers_unknown", cause=refused.text)
            return
        for name, attachment in list(self._attachments.items()):
            # A broker that is away for a moment comes back to the same address.
            is_away = name not in primaries and self._cluster.lived_lately(name)
            if not is_away and primaries.get(name) != attachment.address:
                del self._attachments[name]
                await attachment.close(0.0)
        for name, address in primaries.items():
            if name not in self._attachments:
                self._attachments[name] = self._attach(name, address)

    async def close(self) -> None:
        """Leave all brokers."""
        closing = (attachment.close(LEAVE_S_MAX) for attachment in self._attachments.values())
        await asyncio.gather(*closing)
        self._attachments.clear()

    def present(self, portraits: Iterable[Portrait], /) -> None:
        """Report clients that are new, or do something else now, to all brokers."""
        for part in _parts(map(_relayed, portraits), RelayedClient.ByteSize):
            self._send(RelayedClients(present=part))

    def gone(self, *, left: Sequence[str] = (), silent: Sequence[str] = ()) -> None:
        """Report clients that left, or were silent for too long, to all brokers."""
        for part in _parts(left, len):
            self._send(RelayedClients(left=part))
        for part in _parts(silent, len):
            self._send(RelayedClients(silent=part))

    def ended(self, broker_name: str, client_id: str, transaction_id: str, *, commit: bool) -> None:
        """Answer a broker how a transaction ended."""
        outcome = TRANSACTION_OUTCOME_COMMIT if commit else TRANSACTION_OUTCOME_ROLLBACK
        answer = TransactionAnswer(transaction_id=transaction_id, outcome=outcome)
        self._send_to(broker_name, AttachRequest(transaction_answer=answer, client_id=client_id))

    def state(
        self,
        broker_name: str,
        client_id: str,
        question_id: str,
        facts: dict[str, str],
        *,
        stacks: str = "",
        refusal: str = "",
    ) -> None:
        """Answer a broker what a client does.

        Args:
            broker_name: Who asked.
            client_id: Who was asked.
            question_id: From the question.
            facts: Named facts.
            stacks: What its threads are at, as it says itself.
            refusal: Why there are none although they were asked for.
        """
        state = ClientState(
            question_id=question_id,
            facts=facts,
            stacks_refusal=refusal[:WORD_LENGTH_MAX],
            truncated=len(stacks) > STACKS_LENGTH_MAX,
        )
        if stacks:
            frames = stacks[:STACKS_LENGTH_MAX].splitlines()
            state.stacks.append(ClientStack(name="", is_thread=True, frames=frames))
        self._send_to(broker_name, AttachRequest(state=state, client_id=client_id))

    def consumed(
        self,
        broker_name: str,
        client_id: str,
        question_id: str,
        *,
        consumed: bool | None,
        cause: str = "",
    ) -> None:
        """Answer a broker what became of a message; None: the client did not get it."""
        outcome = CONSUME_OUTCOME_REFUSED
        if consumed is not None:
            outcome = CONSUME_OUTCOME_CONSUMED if consumed else CONSUME_OUTCOME_RETRY
        answer = ConsumeAnswer(
            question_id=question_id, outcome=outcome, cause=cause[:WORD_LENGTH_MAX]
        )
        self._send_to(broker_name, AttachRequest(consume_answer=answer, client_id=client_id))

    def _send(self, clients: RelayedClients) -> None:
        request = AttachRequest(relayed_clients=clients)
        for attachment in self._attachments.values():
            attachment.send(request)

    def _send_to(self, broker_name: str, request: AttachRequest) -> None:
        attachment = self._attachments.get(broker_name)
        if attachment is not None:
            attachment.send(request)

    def _attach(self, broker_name: str, address: str) -> Attachment:
        return Attachment(
            broker_name,
            address,
            self._cluster.connections,
            client_id=self._gateway_id,
            clock=self._cluster.clock,
            on_notice=self._take_notice,
            on_fatal=self._fail,
            answers=self._answers,
        )

    def _take_notice(self, broker_name: str, response: AttachResponse) -> None:
        if response.WhichOneof("content") == "accepted":
            for part in _parts(map(_relayed, self._everybody()), RelayedClient.ByteSize):
                self._send_to(
                    broker_name, AttachRequest(relayed_clients=RelayedClients(present=part))
                )
            return
        question = question_of(broker_name, response)
        if question is not None:
            self._ask(question)

    @staticmethod
    def _fail(error: CallError) -> None:
        _log.error("broker_refuses_gateway", cause=str(error))


def _parts(
    clients: Iterable[ClientT], size_of: Callable[[ClientT], int]
) -> Iterator[list[ClientT]]:
    """Clients, or their ids, as many at a time as fit into a request."""
    part: list[ClientT] = []
    part_bytes = 0
    for client in clients:
        size = size_of(client)
        if part and (len(part) == CLIENTS_TOGETHER_MAX or part_bytes + size > BYTES_TOGETHER_MAX):
            yield part
            part, part_bytes = [], 0
        part.append(client)
        part_bytes += size
    if part:
        yield part


def _relayed(portrait: Portrait) -> RelayedClient:
    return RelayedClient(
        hello=ClientHello(
            client_id=portrait.client_id,
            language=portrait.language,
            sdk_version=portrait.version,
            producer_groups=portrait.produces,
            memberships=[
                Membership(
                    consumer_group=group,
                    model=CONSUME_MODEL_RECEIVING,
                    subscriptions=map(subscription_of, wanted),
                )
                for group, wanted in portrait.consumes.items()
            ],
        ),
        address=portrait.address,
        reachable=portrait.reachable,
        user=portrait.user,
    )
