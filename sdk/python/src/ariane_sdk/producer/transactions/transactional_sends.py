"""The methods of a producer for half messages; a part of ``Producer``."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ariane_sdk.checks.demand import demand_of
from ariane_sdk.message import AcknowledgedLevel, Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.topic_info import QueueSelector, options_of
from ariane_sdk.producer.transactions.transaction import (
    HalfMessage,
    TransactionChecker,
    TransactionOutcome,
)
from ariane_sdk.producer.transactions.transaction_answers import TransactionAnswers
from ariane_sdk.producer.transactions.transaction_block import Transaction
from ariane_sdk.producer.transactions.transaction_calls import TransactionCalls


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
        level: AcknowledgedLevel | None = None,
        in_sync_min: int | None = None,
    ) -> Transaction:
        """Send a message if, and only if, a local transaction succeeds.

        The message is stored when the block begins, but no consumer sees it. The end of the block
        commits it; an error rolls it back. If this process dies before, or the broker does not get
        the outcome, the broker asks a living producer of the group (``transaction_checker``):
        without a checker the message stays invisible.

        The local transaction may have succeeded although the block failed (the database's answer
        was lost). So the checker, if there is one, is asked first, and its COMMIT commits.

        Example::

            async with producer.transaction(Message("orders", b"...")) as transaction:
                async with sessions.begin() as session:
                    session.add(order)

        Args:
            message: The message.
            message_queue: As ``send``.
            selector: As ``send``.
            immunity_s: How many seconds the broker waits before the first check; longer than the
                block takes. By default the checker service decides.
            level: As ``send``: of the half message, and of its end.
            in_sync_min: As ``send``, likewise.

        Raises:
            SendError: At the start of the block: the message may not be stored, and the block is
                not entered.
            TransactionDecided: At the end of the block: a check has decided otherwise meanwhile. If
                the block fails, its own error is raised with a note about this.
            TransactionNotFound: At the end of the block: the broker no longer knows the message.
            CallError: At the end of the block, only without a checker: the broker may not have got
                the commit.
        """
        self._check_running()
        return Transaction(
            self._transaction_calls,
            self._transaction_checker,
            message,
            options_of(message_queue, selector, demand_of(level, in_sync_min)),
            immunity_s,
        )

    async def send_half(
        self,
        message: Message,
        *,
        message_queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        immunity_s: int | None = None,
        level: AcknowledgedLevel | None = None,
        in_sync_min: int | None = None,
    ) -> HalfMessage:
        """Store a message that no consumer sees before it is committed.

        Args:
            message: The message.
            message_queue: As ``send``.
            selector: As ``send``.
            immunity_s: As ``transaction``.
            level: As ``transaction``.
            in_sync_min: As ``transaction``.

        Returns:
            The handle that ends the transaction, also in another process of the group.

        Raises:
            IllegalArgument: The producer has no group, or the message breaks a rule.
            SendError: The message was not acknowledged; ``outcome_unknown`` says whether it may be
                stored.
        """
        self._check_running()
        options = options_of(message_queue, selector, demand_of(level, in_sync_min))
        return await self._transaction_calls.send_half(message, options, immunity_s)

    async def commit(self, half_message: HalfMessage) -> SendResult | None:
        """Make a half message visible. Repeating the call is harmless.

        Returns:
            Where the message is stored; None if the broker no longer has it.

        Raises:
            TransactionDecided: The transaction was rolled back before.
            TransactionNotFound: The broker knows no such transaction.
            TransactionForeign: The transaction is another group's, and has no outcome yet.
            CallError: With ``outcome_unknown`` the message may be visible; repeat the call, or
                leave the transaction to the check.
        """
        self._check_running()
        return await self._transaction_calls.end(half_message, TransactionOutcome.COMMIT)

    async def rollback(self, half_message: HalfMessage) -> None:
        """Discard a half message for good. Repeating the call is harmless.

        Raises:
            TransactionDecided: The transaction was committed before.
            TransactionNotFound: The broker knows no such transaction.
            TransactionForeign: The transaction is another group's, and has no outcome yet.
            CallError: The broker may not have got the call; repeat it, or leave the transaction to
                the check.
        """
        self._check_running()
        await self._transaction_calls.end(half_message, TransactionOutcome.ROLLBACK)

    async def wait_attached(self, *, timeout_s: float = 10.0) -> None:
        """Wait until brokers can ask this producer about transactions; at once without a checker.

        Args:
            timeout_s: The longest wait. Brokers that are not attached by then follow later.
        """
        if self._transaction_answers is not None:
            await self._transaction_answers.wait_attached(timeout_s)

    @abstractmethod
    def _check_running(self) -> None:
        """Refuse, unless the producer runs."""
