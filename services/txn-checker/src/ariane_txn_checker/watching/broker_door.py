"""How a checker speaks to one broker: the network seam."""

from __future__ import annotations

from typing import Protocol

from ariane_txn_checker.transaction import (
    Answer,
    BrokerKey,
    CheckedTransaction,
    HalfMessagePage,
    Outcome,
)


class BrokerDoor(Protocol):
    """The transactions of one broker.

    What a broker decided once stands: saying the same again is harmless, and whoever says another
    thing is told.
    """

    async def list_half_messages(
        self, *, page_size: int, page_token: str = "", begin_queue_offset: int = 0
    ) -> HalfMessagePage:
        """List half messages without an outcome, by queue offset.

        Raises:
            BrokerUnreachable: It could not be asked.
            BrokerFailed: It did not answer.
        """
        ...

    async def ask(self, transaction_id: str, *, check_count: int) -> Answer:
        """Have a producer of the group asked how a transaction ended.

        Args:
            transaction_id: The transaction.
            check_count: How often it was asked about before.

        Raises:
            BrokerUnreachable: The broker did not take the question: surely nobody was asked.
            NobodyAnswered: No producer lives there, none answered in time, or the broker was lost
                while it asked.
            OutcomeStands: It has an outcome; nobody was asked.
            TransactionForgotten: The broker does not know it.
        """
        ...

    async def end(self, transaction: CheckedTransaction, outcome: Outcome) -> Outcome:
        """End a transaction; return the outcome that stands, which may be another.

        Raises:
            BrokerUnreachable: It could not be told.
            BrokerFailed: It did not answer, or could not; it may have ended all the same.
            TransactionForgotten: The broker does not know it.
        """
        ...

    async def park(self, transaction_id: str, *, check_count: int) -> None:
        """Have a copy put into the topic of parked transactions, once however often this is said.

        Raises:
            BrokerUnreachable: It could not be told.
            BrokerFailed: It did not answer, or could not; the copy may be there all the same.
            OutcomeStands: It has an outcome.
            TransactionForgotten: The broker does not know it.
        """
        ...


class Brokers(Protocol):
    """The brokers of all clusters that are known."""

    async def refresh(self) -> None:
        """Ask anew which brokers there are; what cannot be asked leaves what was known."""
        ...

    @property
    def keys(self) -> frozenset[BrokerKey]:
        """The primaries that live."""
        ...

    def door(self, broker: BrokerKey) -> BrokerDoor:
        """How to speak to a broker.

        Raises:
            BrokerUnreachable: Nobody knows where it is.
        """
        ...
