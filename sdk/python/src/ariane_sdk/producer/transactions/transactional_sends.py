"""What a producer does with half messages; part of ``Producer``."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ariane_sdk.client.session import Session
from ariane_sdk.message import Message, MessageQueue, SendResult
from ariane_sdk.producer.batches.topic_lane import QueueSelector, wish_of
from ariane_sdk.producer.transactions.transaction import (
    HalfMessage,
    TransactionChecker,
    TransactionOutcome,
)
from ariane_sdk.producer.transactions.transaction_answers import TransactionAnswers
from ariane_sdk.producer.transactions.transaction_block import Transaction
from ariane_sdk.producer.transactions.transaction_calls import TransactionCalls
from ariane_sdk.runtime.clock import Clock


class TransactionalSends(ABC):
    """The half of a producer that sends and ends half messages."""

    _transaction_calls: TransactionCalls

    def __init__(self, checker: TransactionChecker | None) -> None:
        self._transaction_checker = checker
        self._transaction_answers: TransactionAnswers | None = None

    def transaction(
        self,
        message: Message,
        *,
        message_queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        immunity_s: int | None = None,
    ) -> Transaction:
        """Send a message if, and only if, a local transaction succeeds.

        The message is stored when the block begins, and visible to nobody. When the block ends it
        is committed; when it raises, it is rolled back. Should this process die in between, or the
        broker not hear of the end, a living producer of the group is asked
        (``transaction_checker``): without one the message stays invisible.

        A block that fails may have a local transaction that succeeded (a lost answer of the
        database): so the checker is asked first, if there is one, and COMMIT from it commits.

        Example::

            async with producer.transaction(Message("orders", b"...")) as transaction:
                async with sessions.begin() as session:
                    session.add(order)

        Args:
            message: The message.
            message_queue: As ``send``.
            selector: As ``send``.
            immunity_s: How long the broker leaves it alone before the first check, in seconds;
                longer than the block takes. Without, the checker service says.

        Raises:
            SendError: When the block begins: the message may not be stored, and the block is not
                entered.
            TransactionDecided: When the block ends: the check has decided otherwise meanwhile. When
                the block fails, its own error comes, with a note that says so.
            TransactionNotFound: When the block ends: the broker does not know the message any more.
            CallError: When the block ends, and only without a checker: nobody knows whether the
                commit was heard.
        """
        self._check_running()
        return Transaction(
            self._transaction_calls,
            self._transaction_checker,
            message,
            wish_of(message_queue, selector),
            immunity_s,
        )

    async def send_half(
        self,
        message: Message,
        *,
        message_queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        immunity_s: int | None = None,
    ) -> HalfMessage:
        """Store a message that is visible to nobody before it is committed.

        Args:
            message: The message.
            message_queue: As ``send``.
            selector: As ``send``.
            immunity_s: As ``transaction``.

        Returns:
            What ends it, also in another process of the group.

        Raises:
            IllegalArgument: The producer has no group, or the message breaks a rule.
            SendError: It was not acknowledged; ``outcome_unknown`` says whether it may be stored.
        """
        self._check_running()
        wish = wish_of(message_queue, selector)
        return await self._transaction_calls.send_half(message, wish, immunity_s)

    async def commit(self, half_message: HalfMessage) -> SendResult | None:
        """Make a half message visible. Saying it twice is harmless.

        Returns:
            Where the message lies; nothing if the broker does not keep it any more.

        Raises:
            TransactionDecided: It was rolled back before.
            TransactionNotFound: The broker knows no such transaction.
            TransactionForeign: It is another group's, and has no outcome yet.
            CallError: With ``outcome_unknown`` it may be visible; say it again, or leave it to the
                check.
        """
        self._check_running()
        return await self._transaction_calls.end(half_message, TransactionOutcome.COMMIT)

    async def rollback(self, half_message: HalfMessage) -> None:
        """Have a half message never become visible. Saying it twice is harmless.

        Raises:
            TransactionDecided: It was committed before.
            TransactionNotFound: The broker knows no such transaction.
            TransactionForeign: It is another group's, and has no outcome yet.
            CallError: The broker may not have heard of it; say it again, or leave it to the check.
        """
        self._check_running()
        await self._transaction_calls.end(half_message, TransactionOutcome.ROLLBACK)

    async def wait_attached(self, *, timeout_s: float = 10.0) -> None:
        """Wait until brokers can ask this producer about transactions; at once without a checker.

        Args:
            timeout_s: How long at most. What is not attached then follows by itself.
        """
        if self._transaction_answers is not None:
            await self._transaction_answers.wait_attached(timeout_s)

    @abstractmethod
    def _check_running(self) -> None:
        """Refuse, unless the producer runs."""

    def _answer_checks(
        self, session: Session, group: str, client_id: str, clock: Clock, *, stacks_on_request: bool
    ) -> None:
        """Begin to answer what brokers ask, if anybody can."""
        if self._transaction_checker is not None:
            self._transaction_answers = TransactionAnswers(
                session,
                self._transaction_checker,
                group=group,
                client_id=client_id,
                stacks_on_request=stacks_on_request,
                clock=clock,
            )

    async def _stop_answering(self, timeout_s: float) -> None:
        """Say goodbye to whom would ask."""
        if self._transaction_answers is not None:
            await self._transaction_answers.close(timeout_s)
