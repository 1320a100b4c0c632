"""``async with producer.transaction(message)``: a half message around a local transaction.

And the other methods of a producer for half messages.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from ariane_sdk.checks.demand import demand_of
from ariane_sdk.errors import (
    CallError,
    ClientNotRunning,
    TransactionDecided,
    TransactionNotFound,
)
from ariane_sdk.message import AcknowledgedLevel, Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.topic_info import QueueSelector, SendOptions, options_of
from ariane_sdk.producer.transactions.transaction import (
    HalfMessage,
    TransactionCheck,
    TransactionChecker,
    TransactionOutcome,
    ask,
)
from ariane_sdk.producer.transactions.transaction_answers import TransactionAnswers
from ariane_sdk.producer.transactions.transaction_calls import TransactionCalls
from ariane_sdk.runtime.log import logger


class Transaction:
    """One transaction: it begins and ends with the block."""

    def __init__(
        self,
        calls: TransactionCalls,
        checker: TransactionChecker | None,
        message: Message,
        options: SendOptions,
        immunity_s: int | None,
    ) -> None:
        self._calls = calls
        self._checker = checker
        self._message = message
        self._options = options
        self._immunity_s = immunity_s
        self._half: HalfMessage | None = None
        self._ended = False
        self.result: SendResult | None = None
        """Where the message is stored, once it is committed."""

    @property
    def half_message(self) -> HalfMessage:
        """The half message.

        Raises:
            ClientNotRunning: The block was not entered.
        """
        if self._half is None:
            raise ClientNotRunning("the transaction has not begun: use it as `async with`")
        return self._half

    @property
    def transaction_id(self) -> str:
        """The transaction's id."""
        return self.half_message.transaction_id

    async def commit(self) -> SendResult | None:
        """Make the message visible now; the end of the block then does nothing.

        Raises:
            TransactionDecided: The transaction was rolled back before.
            CallError: Any other failure; the check will settle the transaction.
        """
        self._ended = True
        self.result = await self._calls.end(self.half_message, TransactionOutcome.COMMIT)
        return self.result

    async def rollback(self) -> None:
        """Discard the message for good; the end of the block then does nothing.

        Raises:
            TransactionDecided: The transaction was committed before.
            CallError: Any other failure; the check will settle the transaction.
        """
        self._ended = True
        await self._calls.end(self.half_message, TransactionOutcome.ROLLBACK)

    def leave(self) -> None:
        """End the block without an outcome: the broker's check will ask for it."""
        self._ended = True

    async def __aenter__(self) -> Self:
        self._half = await self._calls.send_half(self._message, self._options, self._immunity_s)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        if exc is None:
            await self._commit_or_leave()
        else:
            await self._end_after(exc)

    async def _commit_or_leave(self) -> None:
        """Commit; a failed call is left to the check, since the local transaction succeeded."""
        try:
            await self.commit()
        except (TransactionDecided, TransactionNotFound):
            # Without a checker only the caller can repair this, so the caller gets the error.
            raise
        except CallError as error:
            if self._checker is None:
                raise
            logger.warning("%s is left to the check: %s", self.transaction_id, error)

    async def _end_after(self, error: BaseException) -> None:
        """Roll back after an error in the block, unless the checker says otherwise."""
        ending = asyncio.ensure_future(self._end_as_the_checker_says())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            if not isinstance(error, asyncio.CancelledError):
                raise
        except TransactionDecided as decided:
            # The block's own error is raised; a note on it says what happened to the transaction.
            error.add_note(f"transaction {self.transaction_id} ended before: {decided.outcome}")
        except Exception as failure:  # noqa: BLE001 - the block's own error goes on its way.
            logger.warning("%s is left to the check: %s", self.transaction_id, failure)

    async def _end_as_the_checker_says(self) -> None:
        if self._checker is not None:
            check = TransactionCheck.of(self.half_message, self._message)
            if await ask(self._checker, check) is TransactionOutcome.COMMIT:
                await self.commit()
                return
        await self.rollback()


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
