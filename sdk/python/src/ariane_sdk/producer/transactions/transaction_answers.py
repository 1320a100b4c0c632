"""Answers to brokers that ask how transactions of a producer group ended.

A producer with a checker is attached to every broker: a broker may ask any living process of the
group, whichever began the transaction. A producer without a checker is not attached, and not asked.
"""

from __future__ import annotations

import asyncio
from typing import Final

import numpy as np

from ariane.broker.v1.client_service_pb2 import (
    AttachRequest,
    AttachResponse,
    TransactionAnswer,
)
from ariane.broker.v1.client_service_pb2 import TransactionCheck as WireCheck
from ariane_record.single.view import MessageView, iter_messages
from ariane_sdk.client.attachment import Attachment
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.errors import CallError
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.sending.unsettled import ProducerParts
from ariane_sdk.producer.transactions.transaction import (
    HalfMessage,
    TransactionCheck,
    TransactionChecker,
    TransactionOutcome,
    ask,
)
from ariane_sdk.producer.transactions.transaction_calls import WIRE_OUTCOMES
from ariane_sdk.routing.route import PRIMARY_ID
from ariane_sdk.runtime.application_calls import text_of
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import loop_for_ever, start_task

BROKERS_INTERVAL_S: Final = 15.0
"""How often the list of brokers is read again."""

CHECKS_MAX: Final = 64
"""Questions that are answered at a time; others wait for their turn."""

CAUSE_LENGTH_MAX: Final = 255
"""The most characters of the cause of an unknown outcome."""

_REAL_TOPIC: Final = "REAL_TOPIC"


class TransactionAnswers:
    """Keeps a producer attached to all brokers, and answers their questions."""

    def __init__(
        self, parts: ProducerParts, checker: TransactionChecker, *, group: str, client_id: str
    ) -> None:
        self._session = parts.session
        self._clock = parts.clock
        self._checker = checker
        self._group = group
        self._client_id = client_id
        self._operator_answers = OperatorAnswers(
            facts=lambda: {"checks_in_work": str(len(self._checks))},
            stacks_allowed=parts.settings.stacks_on_request,
        )
        self._attachments: dict[str, Attachment] = {}
        self._checks: dict[asyncio.Task[None], None] = {}
        self._room = asyncio.Semaphore(CHECKS_MAX)
        self._followed = asyncio.Event()
        self._following = start_task(loop_for_ever(self._turn, parts.clock), "transaction-brokers")

    async def wait_attached(self, timeout_s: float) -> None:
        """Wait until each known broker has accepted the producer or has failed to."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._followed.wait()
                for attachment in list(self._attachments.values()):
                    await attachment.wait_tried()
        except TimeoutError:
            logger.info("not attached to all brokers yet; the rest follows")

    async def close(self, timeout_s: float) -> None:
        """Detach from all brokers."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        await asyncio.gather(
            *(attachment.close(timeout_s) for attachment in self._attachments.values())
        )
        for check in self._checks:
            check.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)

    async def _turn(self) -> None:
        try:
            await self._follow_brokers()
        except CallError as error:
            logger.info("the brokers are not known now: %s", error)
        finally:
            self._followed.set()
        await self._clock.sleep(BROKERS_INTERVAL_S)

    async def _follow_brokers(self) -> None:
        brokers = {
            liveness.identity.broker_name: liveness.identity.address
            for liveness in await self._session.name_servers.list_brokers()
            if liveness.identity.broker_id == PRIMARY_ID
        }
        for broker_name, attachment in list(self._attachments.items()):
            # A broker that is away for a moment is kept: it comes back to the same address.
            if brokers.get(broker_name, attachment.address) != attachment.address:
                del self._attachments[broker_name]
                await attachment.close(0.0)
        for broker_name, address in brokers.items():
            if broker_name not in self._attachments:
                self._attachments[broker_name] = self._attach(broker_name, address)

    def _attach(self, broker_name: str, address: str) -> Attachment:
        def log_refusal(error: CallError) -> None:
            logger.error("broker %s will never ask this producer: %s", broker_name, error)

        return Attachment(
            broker_name,
            address,
            self._session.connections,
            client_id=self._client_id,
            producer_groups=(self._group,),
            clock=self._clock,
            on_notice=self._take_notice,
            on_fatal=log_refusal,
            answers=self._operator_answers,
        )

    def _take_notice(self, broker_name: str, response: AttachResponse) -> None:
        if response.WhichOneof("content") != "transaction_check":
            return
        wire = response.transaction_check
        check = start_task(self._answer(broker_name, wire), f"check-{wire.transaction_id}")
        self._checks[check] = None
        check.add_done_callback(self._checks.pop)

    async def _answer(self, broker_name: str, wire: WireCheck) -> None:
        outcome, cause = TransactionOutcome.UNKNOWN, "the producer's checker does not know yet"
        try:
            async with self._room:
                outcome = await ask(self._checker, _check_of(broker_name, wire))
        except Exception as error:  # noqa: BLE001 - the application's function: it is asked again.
            logger.exception("the transaction checker failed on %s", wire.transaction_id)
            cause = f"the producer's checker failed: {type(error).__qualname__}: {text_of(error)}"
        attachment = self._attachments.get(broker_name)
        if attachment is not None:
            answer = TransactionAnswer(
                transaction_id=wire.transaction_id,
                outcome=WIRE_OUTCOMES[outcome],
                cause=cause[:CAUSE_LENGTH_MAX] if outcome is TransactionOutcome.UNKNOWN else "",
            )
            attachment.send(AttachRequest(transaction_answer=answer))


def _check_of(broker_name: str, wire: WireCheck) -> TransactionCheck:
    view: MessageView = next(iter_messages(wire.record, np.array([len(wire.record)])))
    message = ReceivedMessage(view, MessageQueue(view.topic, broker_name, 0))
    topic = message.properties.get(_REAL_TOPIC, "")
    half = HalfMessage(wire.transaction_id, topic, broker_name)
    return TransactionCheck.of(half, message, check_count=wire.check_count)
