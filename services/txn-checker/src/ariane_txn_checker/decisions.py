"""Decisions of operators about transactions. The broker's outcome stands; rows only repeat it."""

from __future__ import annotations

from typing import Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit import field_invalid, get_logger
from ariane_servicekit.database import Database
from ariane_servicekit.errors import refusal
from ariane_txn_checker.database import InquiryStore
from ariane_txn_checker.errors import BrokerFailed, BrokerUnreachable, TransactionForgotten
from ariane_txn_checker.transaction import CheckedTransaction, Outcome, State
from ariane_txn_checker.watching.brokers import Brokers

CAUSE_BYTES_MAX: Final = 1024

_log = get_logger(__name__)


class OperatorDecisions:
    """Decides and resumes transactions of any broker, whichever checker watches it."""

    def __init__(self, database: Database, brokers: Brokers) -> None:
        self._database = database
        self._inquiries = InquiryStore(database)
        self._brokers = brokers

    async def find(self, transaction_id: str) -> CheckedTransaction:
        """Return the transaction with an id.

        Raises:
            ServiceError: TRANSACTION_NOT_FOUND.
        """
        found = await self._database.call(self._inquiries.transaction, transaction_id)
        if found is None:
            raise _not_found(transaction_id)
        return found

    async def decide(self, transaction_id: str, outcome: Outcome, cause: str) -> CheckedTransaction:
        """End a transaction by an operator's decision; return its new state.

        The decision is noted before the broker is told, so that any checker that learns the outcome
        knows its author.

        Raises:
            ServiceError: TRANSACTION_NOT_FOUND; TRANSACTION_DECIDED with the outcome;
                FIELD_INVALID; SERVICE_BUSY if the broker cannot be reached: nothing is decided;
                DEADLINE_PASSED if the transaction may be decided.
        """
        if not outcome.decides:
            raise field_invalid("outcome", "must be commit or rollback")
        if not 1 <= len(cause.encode()) <= CAUSE_BYTES_MAX:
            raise field_invalid("cause", f"must have 1 to {CAUSE_BYTES_MAX} bytes")
        found = await self.find(transaction_id)
        if found.state is State.DECIDED:
            return _if_the_same(found, outcome)
        await self._database.call(self._inquiries.intend, found.key, outcome, cause)
        try:
            standing = await self._brokers.broker(found.key.broker).end(found, outcome)
        except TransactionForgotten:
            await self._database.call(self._inquiries.decide, found.key, Outcome.UNSPECIFIED)
            raise _not_found(transaction_id) from None
        except BrokerUnreachable as error:
            await self._database.call(self._inquiries.forget_intention, found.key)
            raise _unreachable(found.key.broker.broker_name, str(error)) from error
        except BrokerFailed as error:
            raise _uncertain(found.key.broker.broker_name, str(error)) from error
        await self._database.call(self._inquiries.decide, found.key, standing)
        _log.info(
            "operator_decided", transaction_id=transaction_id, outcome=standing.name, cause=cause
        )
        return _if_the_same(await self.find(transaction_id), outcome)

    async def resume(self, transaction_id: str) -> CheckedTransaction:
        """Put a parked transaction under check again; return its new state.

        Raises:
            ServiceError: TRANSACTION_NOT_FOUND, TRANSACTION_DECIDED.
        """
        found = await self.find(transaction_id)
        await self._database.call(self._inquiries.resume, found.key)
        resumed = await self.find(transaction_id)
        if resumed.state is State.DECIDED:
            raise _decided(transaction_id, resumed.outcome.name)
        return resumed


def _if_the_same(transaction: CheckedTransaction, outcome: Outcome) -> CheckedTransaction:
    if transaction.outcome is Outcome.UNSPECIFIED:
        raise _not_found(transaction.key.transaction_id)
    if transaction.outcome is not outcome:
        raise _decided(transaction.key.transaction_id, transaction.outcome.name)
    return transaction


@refusal(ErrorReason.ERROR_REASON_TRANSACTION_NOT_FOUND)
def _not_found(transaction_id: str) -> str:
    return f"no half message of transaction {transaction_id!r} is known"


@refusal(ErrorReason.ERROR_REASON_TRANSACTION_DECIDED)
def _decided(transaction_id: str, outcome: str) -> str:
    return f"transaction {transaction_id!r} was decided before: {outcome}"


@refusal(ErrorReason.ERROR_REASON_SERVICE_BUSY, retry_after_ms=5_000)
def _unreachable(broker_name: str, cause: str) -> str:
    return f"broker {broker_name} cannot be reached, and nothing is decided: {cause}"


@refusal(ErrorReason.ERROR_REASON_DEADLINE_PASSED)
def _uncertain(broker_name: str, cause: str) -> str:
    return f"broker {broker_name} did not confirm, and may have decided; say it again: {cause}"
