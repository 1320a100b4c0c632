"""``ariane transaction``: half messages without an outcome, and deciding them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import click
from grpc.aio import insecure_channel

from ariane.broker.v1.client_service_pb2 import (
    TRANSACTION_OUTCOME_COMMIT,
    TRANSACTION_OUTCOME_ROLLBACK,
    TransactionOutcome,
)
from ariane.transaction.v1.checked_transaction_pb2 import (
    CheckedTransaction,
    CheckedTransactionState,
    TransactionCheckRecord,
)
from ariane.transaction.v1.checked_transaction_service_pb2 import (
    DecideTransactionRequest,
    GetCheckedTransactionRequest,
    ListCheckedTransactionsRequest,
    ListParkedTransactionsRequest,
    ListTransactionChecksRequest,
    ResumeTransactionChecksRequest,
)
from ariane.transaction.v1.checked_transaction_service_pb2_grpc import (
    CheckedTransactionServiceStub,
)
from ariane_admin.cluster_doors import CALL_SECONDS_MAX, PAGE_SIZE, answer_of, answer_to_question
from ariane_admin.confirmation import confirm, yes_option
from ariane_admin.connection import CHECKER_VARIABLE, checker_option, run_async
from ariane_admin.output import Output, Row, output_option
from ariane_admin.times import moment_text
from ariane_sdk.errors import ServiceUnavailable

if TYPE_CHECKING:
    from ariane.transaction.v1.checked_transaction_service_pb2_grpc import (
        CheckedTransactionServiceAsyncStub,
    )

_COLUMNS: Final = ("transaction_id", "topic", "group", "broker", "state", "checks", "stored")
_CHECK_COLUMNS: Final = ("check", "asked", "answer", "client_id", "failure_reason")

_EntryT = TypeVar("_EntryT")


class _PagedRequest(Protocol):
    page_size: int
    page_token: str


@click.group()
def transaction() -> None:
    """Look at transactions without an outcome, and decide them."""


@transaction.command("list")
@click.option("--group", "producer_group", default="", help="Only of this producer group.")
@click.option("--topic", default="", help="Only for this topic.")
@click.option("--broker", "broker_name", default="", help="Only on this broker.")
@checker_option
@output_option
def list_transactions(
    *, producer_group: str, topic: str, broker_name: str, checker: str, output: Output
) -> None:
    """List transactions under check, the next to be asked about first.

    \b
    Examples:
      ariane transaction list
      ariane transaction list --group payments -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> list[Row]:
        async with _checker(checker) as stub:
            request = ListCheckedTransactionsRequest(
                producer_group=producer_group, topic=topic, broker_name=broker_name
            )
            return await _all_pages(
                request,
                lambda: answer_to_question(
                    stub.ListCheckedTransactions(request, timeout=CALL_SECONDS_MAX), _peer(checker)
                ),
                lambda answer: map(_row, answer.transactions),
            )

    output.rows((*_COLUMNS, "next_check"), run_async(ask()))


@transaction.command("parked")
@click.option("--group", "producer_group", default="", help="Only of this producer group.")
@click.option("--topic", default="", help="Only for this topic.")
@checker_option
@output_option
def parked(*, producer_group: str, topic: str, checker: str, output: Output) -> None:
    """List transactions that nobody could answer for, the longest waiting first.

    \b
    Example:
      ariane transaction parked
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> list[Row]:
        async with _checker(checker) as stub:
            request = ListParkedTransactionsRequest(producer_group=producer_group, topic=topic)
            return await _all_pages(
                request,
                lambda: answer_to_question(
                    stub.ListParkedTransactions(request, timeout=CALL_SECONDS_MAX), _peer(checker)
                ),
                lambda answer: map(_row, answer.transactions),
            )

    output.rows((*_COLUMNS, "ended"), run_async(ask()))


@transaction.command("show")
@click.argument("transaction_id")
@checker_option
@output_option
def show(*, transaction_id: str, checker: str, output: Output) -> None:
    """Show transaction TRANSACTION_ID and what its producers were asked.

    \b
    Example:
      ariane transaction show 7F0000010A2B18B4AAC20000C0DE0001
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[Row, list[Row]]:
        async with _checker(checker) as stub:
            one = GetCheckedTransactionRequest(transaction_id=transaction_id)
            found = await answer_to_question(
                stub.GetCheckedTransaction(one, timeout=CALL_SECONDS_MAX), _peer(checker)
            )
            request = ListTransactionChecksRequest(transaction_id=transaction_id)
            checks: list[Row] = await _all_pages(
                request,
                lambda: answer_to_question(
                    stub.ListTransactionChecks(request, timeout=CALL_SECONDS_MAX), _peer(checker)
                ),
                lambda answer: map(_check_row, answer.checks),
            )
            return _row(found.transaction), checks

    row, checks = run_async(ask())
    output.record(row, {"check_list": (_CHECK_COLUMNS, checks)})


@transaction.command("decide")
@click.argument("transaction_id")
@click.option("--commit/--rollback", default=None, help="How it is to end.")
@click.option("--cause", required=True, help="Why, for the record.")
@yes_option
@checker_option
@output_option
def decide(
    *,
    transaction_id: str,
    commit: bool | None,
    cause: str,
    yes: bool,
    checker: str,
    output: Output,
) -> None:
    """End transaction TRANSACTION_ID, parked or not. An outcome that it has already stands.

    \b
    Example:
      ariane transaction decide 7F00... --rollback --cause "order 4711 was cancelled"
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if commit is None:
        raise click.UsageError("say either --commit or --rollback")
    word = "Commit" if commit else "Roll back"
    confirm(f"{word} transaction {transaction_id}? It cannot be undone.", yes=yes)

    async def ask() -> Row:
        async with _checker(checker) as stub:
            request = DecideTransactionRequest(
                transaction_id=transaction_id,
                outcome=TRANSACTION_OUTCOME_COMMIT if commit else TRANSACTION_OUTCOME_ROLLBACK,
                cause=cause,
            )
            # A broker is asked behind the checker: its time comes on top.
            call = stub.DecideTransaction(request, timeout=3 * CALL_SECONDS_MAX)
            return _row((await answer_of(call, _peer(checker))).transaction)

    row = run_async(ask())
    output.done(f"Transaction {transaction_id} has ended: {row['outcome']}.", row)


@transaction.command("resume")
@click.argument("transaction_id")
@checker_option
@output_option
def resume(*, transaction_id: str, checker: str, output: Output) -> None:
    """Have the producers of a parked transaction asked again, counted anew.

    \b
    Example:
      ariane transaction resume 7F0000010A2B18B4AAC20000C0DE0001
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> Row:
        async with _checker(checker) as stub:
            request = ResumeTransactionChecksRequest(transaction_id=transaction_id)
            call = stub.ResumeTransactionChecks(request, timeout=CALL_SECONDS_MAX)
            return _row((await answer_of(call, _peer(checker))).transaction)

    output.done(f"Transaction {transaction_id} is under check.", run_async(ask()))


@asynccontextmanager
async def _checker(address: str) -> AsyncIterator[CheckedTransactionServiceAsyncStub]:
    async with insecure_channel(address) as channel:
        try:
            yield CheckedTransactionServiceStub(channel)
        except ServiceUnavailable as error:
            error.add_note(f"say where it is by --checker or {CHECKER_VARIABLE}")
            raise


def _peer(address: str) -> str:
    return f"transaction checker at {address}"


async def _all_pages(
    request: _PagedRequest,
    ask: Callable[[], Awaitable[Any]],
    entries: Callable[[Any], Any],
) -> list[_EntryT]:
    request.page_size = PAGE_SIZE
    found: list[_EntryT] = []
    while True:
        answer = await ask()
        found += entries(answer)
        request.page_token = answer.next_page_token
        if not request.page_token:
            return found


def _row(each: CheckedTransaction) -> Row:
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


def _check_row(each: TransactionCheckRecord) -> Row:
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
