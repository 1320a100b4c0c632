"""Questions of brokers on their way to clients, and the answers on their way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from apache.rocketmq.v2.definition_pb2 import Code, Resource
from apache.rocketmq.v2.service_pb2 import (
    PrintThreadStackTraceCommand,
    ReconnectEndpointsCommand,
    RecoverOrphanedTransactionCommand,
    TelemetryCommand,
    VerifyMessageCommand,
)
from ariane_gateway.brokers.attachments import Attachments
from ariane_gateway.brokers.questions import Consume, HowEnded, Question, WhatState
from ariane_gateway.clients.client import GatewayClient
from ariane_gateway.clients.client_table import ClientTable
from ariane_gateway.rpc.handed_message import message_for
from ariane_gateway.sending.transaction_handle import TransactionHandle
from ariane_sdk.errors import BodyDamaged
from ariane_servicekit import get_logger

OPEN_MAX: Final = 10_000
"""Questions without an answer that are remembered; the oldest are given up first."""

_log = get_logger(__name__)


class _Asked(NamedTuple):
    """A question without what it is about: that would be a message of megabytes."""

    kind: type[Question]
    broker_name: str
    client_id: str
    question_id: str


class Commands:
    """Asks clients over their streams."""

    attachments: Attachments
    """Takes the answers; set when the parts are put together."""

    def __init__(self, clients: ClientTable, new_id: Callable[[], str]) -> None:
        self._clients = clients
        self._new_id = new_id
        self._open: dict[str, _Asked] = {}

    def ask(self, question: Question) -> None:
        """Ask a client; what it does not answer, the broker gives up by itself."""
        client = self._clients.find(question.client_id)
        if client is None or not client.streams:
            return
        try:
            command = self._command(question, client)
        except BodyDamaged as error:
            _log.warning("question_dropped", client=question.client_id, cause=str(error))
            return
        if command is not None:
            client.streams[-1](command)

    def answered(self, client_id: str, command: TelemetryCommand) -> None:
        """Hand on a client's answer."""
        kind = command.WhichOneof("command")
        if kind == "thread_stack_trace":
            trace = command.thread_stack_trace
            asked = self._take(client_id, trace.nonce, WhatState)
            if asked is not None:
                stacks = trace.thread_stack_trace
                refusal = "" if stacks else command.status.message or "the client says nothing"
                self._answer_state(asked, stacks=stacks, refusal=refusal)
        elif kind == "verify_message_result":
            asked = self._take(client_id, command.verify_message_result.nonce, Consume)
            if asked is not None:
                self._answer_consumed(asked, command.status.code, command.status.message)

    def ended(self, transaction: TransactionHandle, *, commit: bool) -> None:
        """A client has ended a transaction: the broker that asked about it need not wait."""
        asked = self._open.pop(transaction.encode(), None)
        if asked is not None:
            self.attachments.ended(
                transaction.broker_name, asked.client_id, transaction.unique_id, commit=commit
            )

    def ask_to_reconnect(self) -> None:
        """Have all clients connect anew; few do what they are told."""
        for portrait in list(self._clients.portraits()):
            client = self._clients.find(portrait.client_id)
            for stream in () if client is None else client.streams:
                stream(
                    TelemetryCommand(
                        reconnect_endpoints_command=ReconnectEndpointsCommand(nonce=self._new_id())
                    )
                )

    def _command(self, question: Question, client: GatewayClient) -> TelemetryCommand | None:
        if isinstance(question, HowEnded):
            handle = TransactionHandle(question.broker_name, question.transaction_id)
            self._remember(handle.encode(), question, question.transaction_id)
            return TelemetryCommand(
                recover_orphaned_transaction_command=RecoverOrphanedTransactionCommand(
                    message=message_for(question.message, Resource(name=question.topic)),
                    transaction_id=handle.encode(),
                )
            )
        nonce = self._new_id()
        if isinstance(question, Consume):
            self._remember(nonce, question, question.question_id)
            message = message_for(question.message, Resource(name=question.topic))
            return TelemetryCommand(
                verify_message_command=VerifyMessageCommand(nonce=nonce, message=message)
            )
        if not question.with_stacks:
            asked = _Asked(
                WhatState, question.broker_name, question.client_id, question.question_id
            )
            self._answer_state(asked, client=client)
            return None
        self._remember(nonce, question, question.question_id)
        return TelemetryCommand(
            print_thread_stack_trace_command=PrintThreadStackTraceCommand(nonce=nonce)
        )

    def _remember(self, name: str, question: Question, question_id: str) -> None:
        if len(self._open) >= OPEN_MAX:
            del self._open[next(iter(self._open))]
        asked = _Asked(type(question), question.broker_name, question.client_id, question_id)
        self._open[name] = asked

    def _take(self, client_id: str, name: str, kind: type[Question]) -> _Asked | None:
        asked = self._open.get(name)
        if asked is None or asked.client_id != client_id:
            return None
        del self._open[name]
        return asked if asked.kind is kind else None

    def _answer_state(
        self, asked: _Asked, *, client: GatewayClient | None = None, **stacks: Any
    ) -> None:
        client = client or self._clients.find(asked.client_id)
        facts = {}
        if client is not None:
            facts = {
                "language": client.language,
                "client_version": client.version,
                "open_streams": str(len(client.streams)),
                "produces": ",".join(client.produces),
                "consumes": ",".join(client.consumes),
            }
        self.attachments.state(
            asked.broker_name, asked.client_id, asked.question_id, facts, **stacks
        )

    def _answer_consumed(self, asked: _Asked, code: Code.ValueType, text: str) -> None:
        consumed = {Code.OK: True, Code.FAILED_TO_CONSUME_MESSAGE: False}.get(code)
        self.attachments.consumed(
            asked.broker_name,
            asked.client_id,
            asked.question_id,
            consumed=consumed,
            cause="" if consumed else text or "the client does not consume on request",
        )
