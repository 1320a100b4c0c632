"""``async with producer.transaction(message)``: a half message around a local transaction."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from ariane_sdk.errors import (
    CallError,
    ClientNotRunning,
    TransactionDecided,
    TransactionNotFound,
)
from ariane_sdk.message import Message, SendResult
from ariane_sdk.producer.accumulator.topic_info import SendOptions
from ariane_sdk.producer.transactions.transaction import (
    HalfMessage,
    TransactionCheck,
    TransactionChecker,
    TransactionOutcome,
    ask,
)
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
