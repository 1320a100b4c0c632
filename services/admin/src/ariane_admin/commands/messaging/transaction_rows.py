"""What ``ariane transaction`` shows of a transaction, and of the questions to its producers."""

from __future__ import annotations

from ariane.broker.v1.client_service_pb2 import TransactionOutcome
from ariane.transaction.v1.checked_transaction_pb2 import (
    CheckedTransaction,
    CheckedTransactionState,
    TransactionCheckRecord,
)
from ariane_admin.terminal.output import Row
from ariane_admin.times import moment_text


def transaction_row(each: CheckedTransaction) -> Row:
    """A transaction as commands tell it."""
    return {
        "transaction_id": each.transaction_id,
        "topic": each.topic,
        "group": each.producer_group,
        "keys": list(each.keys),
        "cluster": each.cluster_name,
        "broker": each.broker_name,
        "half_queue_offset": each.half_queue_offset,
        "state": CheckedTransactionState.Name(each.state).rpartition("_")[2].lower(),
        "outcome": _outcome_word(each.outcome),
        "decider": each.decider,
        "cause": each.cause,
        "checks": each.check_count,
        "checks_max": each.check_count_max,
        "stored": moment_text(each, "store_time"),
        "first_seen": moment_text(each, "first_seen_time"),
        "next_check": moment_text(each, "next_check_time"),
        "ended": moment_text(each, "end_time"),
    }


def check_row(each: TransactionCheckRecord) -> Row:
    """One question to its producer, as commands tell it."""
    return {
        "check": each.check_number,
        "asked": moment_text(each, "ask_time"),
        "answered": moment_text(each, "answer_time"),
        "answer": _outcome_word(each.answer),
        "client_id": each.client_id,
        "checker_id": each.checker_id,
        "failure_reason": each.failure_reason,
    }


def _outcome_word(outcome: TransactionOutcome.ValueType) -> str:
    word = TransactionOutcome.Name(outcome).rpartition("_")[2].lower()
    return "" if word == "unspecified" else word
