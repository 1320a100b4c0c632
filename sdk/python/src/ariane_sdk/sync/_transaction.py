"""One transaction of a producer, as a block."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ariane_sdk.message import SendResult
from ariane_sdk.producer.transactions import transaction_block as _transaction_block
from ariane_sdk.producer.transactions.transaction import HalfMessage
from ariane_sdk.runtime.blocking import LoopThread


class Transaction:
    """One transaction: it begins and ends with the block; see ``ariane_sdk.Transaction``."""

    def __init__(self, loop: LoopThread, transaction: _transaction_block.Transaction) -> None:
        self._loop = loop
        self._transaction = transaction

    @property
    def half_message(self) -> HalfMessage:
        """The half message."""
        return self._transaction.half_message

    @property
    def transaction_id(self) -> str:
        """The transaction's id."""
        return self._transaction.transaction_id

    @property
    def result(self) -> SendResult | None:
        """Where the message is stored, once it is committed."""
        return self._transaction.result

    def commit(self) -> SendResult | None:
        """Make the message visible now; see ``ariane_sdk.Transaction.commit``."""
        return self._loop.run(self._transaction.commit())

    def rollback(self) -> None:
        """Discard the message for good; see ``ariane_sdk.Transaction.rollback``."""
        self._loop.run(self._transaction.rollback())

    def leave(self) -> None:
        """End the block without an outcome: the check will ask for it."""
        self._transaction.leave()

    def __enter__(self) -> Self:
        self._loop.run(self._transaction.__aenter__())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.run(self._transaction.__aexit__(exc_type, exc, traceback))
