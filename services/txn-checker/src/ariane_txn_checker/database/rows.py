"""Conversion between rows and values."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, and_

from ariane_txn_checker.transaction import (
    BrokerKey,
    CheckedTransaction,
    CheckRecord,
    Outcome,
    State,
    TransactionKey,
)


def of_broker(table: Table, broker: BrokerKey) -> ColumnElement[bool]:
    """The condition for rows of one broker."""
    return and_(
        table.c.cluster_name == broker.cluster_name, table.c.broker_name == broker.broker_name
    )


def of_transaction(table: Table, key: TransactionKey) -> ColumnElement[bool]:
    """The condition for rows of one transaction."""
    return and_(of_broker(table, key.broker), table.c.transaction_id == key.transaction_id)


def key_values(key: TransactionKey) -> dict[str, str]:
    """The columns that name a transaction."""
    return {
        "cluster_name": key.broker.cluster_name,
        "broker_name": key.broker.broker_name,
        "transaction_id": key.transaction_id,
    }


def transaction_of(row: Row[Any]) -> CheckedTransaction:
    """A transaction from its row."""
    return CheckedTransaction(
        key=TransactionKey(BrokerKey(row.cluster_name, row.broker_name), row.transaction_id),
        unique_id=row.unique_id,
        topic=row.topic,
        producer_group=row.producer_group,
        keys=tuple(json.loads(row.message_keys)),
        half_queue_offset=row.half_queue_offset,
        store_ms=row.store_ms,
        first_seen_ms=row.first_seen_ms,
        next_check_ms=row.next_check_ms,
        check_count=row.check_count,
        check_number_last=row.check_number_last,
        state=State(row.state),
        unlisted=row.unlisted,
        outcome=Outcome(row.outcome),
        decider=row.decider,
        cause=row.cause,
        end_ms=row.end_ms,
    )


def check_of(row: Row[Any]) -> CheckRecord:
    """A check from its row."""
    return CheckRecord(
        check_number=row.check_number,
        ask_ms=row.ask_ms,
        answer_ms=row.answer_ms,
        answer=Outcome(row.answer),
        client_id=row.client_id,
        checker_id=row.checker_id,
        failure_reason=row.failure_reason,
    )
