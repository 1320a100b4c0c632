"""Brokers, as far as a checker asks them; implemented over the network, and in memory for tests."""

from __future__ import annotations

from typing import Protocol

from ariane_txn_checker.transaction import (
    Answer,
    BrokerKey,
    CheckedTransaction,
    HalfMessagePage,
    Outcome,
)


class Broker(Protocol):
    """The transactions of one broker.

    A broker's decision stands: repeating it is harmless, and a caller with another outcome is told
    the one that stands.
    """

    async def list_half_messages(
        self, *, page_size: int, page_token: str = "", begin_queue_offset: int = 0
    ) -> HalfMessagePage:
        """List half messages without an outcome, by queue offset.

        Raises:
            BrokerUnreachable: The call did not reach the broker.
            BrokerFailed: The broker did not answer.
        """
        ...

    async def ask(self, transaction_id: str, *, check_count: int) -> Answer:
        """Make the broker ask a producer of the group how a transaction ended.

        Args:
            transaction_id: The transaction.
            check_count: Number of checks before.

        Raises:
            BrokerUnreachable: The broker did not get the question: surely no producer was asked.
            NobodyAnswered: No producer is attached, none answered in time, or the broker was lost
                meanwhile.
            OutcomeStands: The transaction has an outcome; no producer was asked.
            TransactionForgotten: The broker does not know it.
        """
        ...

    async def end(self, transaction: CheckedTransaction, outcome: Outcome) -> Outcome:
        """End a transaction; return the outcome that now stands, which may differ.

        Raises:
            BrokerUnreachable: The call did not reach the broker.
            BrokerFailed: The broker did not answer or failed; the transaction may have ended.
            TransactionForgotten: The broker does not know it.
        """
        ...

    async def park(self, transaction_id: str, *, check_count: int) -> None:
        """Put a copy into the topic of parked transactions; repeating that adds no second one.

        Raises:
            BrokerUnreachable: The call did not reach the broker.
            BrokerFailed: The broker did not answer or failed; the copy may exist.
            OutcomeStands: The transaction has an outcome.
            TransactionForgotten: The broker does not know it.
        """
        ...


class Brokers(Protocol):
    """The known brokers of all clusters."""

    async def refresh(self) -> None:
        """Query the brokers that exist; without an answer the known ones stay."""
        ...

    @property
    def keys(self) -> frozenset[BrokerKey]:
        """The living primaries."""
        ...

    def broker(self, key: BrokerKey) -> Broker:
        """The broker of a key.

        Raises:
            BrokerUnreachable: The broker's address is unknown.
        """
        ...
