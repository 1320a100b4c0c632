"""``ariane transaction``: half messages without an outcome, and deciding them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from ariane.admin.v1 import transaction_service_pb2 as transaction_pb
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
from ariane_admin.asking.changing.bulk_transactions import (
    BulkOutcome,
    ParkedSelection,
    end_with,
    for_each,
)
from ariane_admin.asking.changing.changes import (
    AdminChoice,
    administration,
    change_option,
)
from ariane_admin.asking.cluster_doors import PAGE_SIZE, all_pages, answer_to_question
from ariane_admin.asking.connection import CHECKER_VARIABLE, checker_option, run_async
from ariane_admin.asking.options import count_option, with_options
from ariane_admin.asking.questions import Questions, questions
from ariane_admin.asking.services import Services
from ariane_admin.counted import counted
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.output import Output, Row, first_of, output_option
from ariane_admin.times import moment_text
from ariane_sdk.errors import FeatureNotAvailable, ServiceUnavailable

if TYPE_CHECKING:
    from google.protobuf.message import Message

_COLUMNS: Final = (
    *("transaction_id", "topic", "group", "keys", "broker", "state", "checks", "stored"),
)
_CHECK_COLUMNS: Final = ("check", "asked", "answer", "client_id", "failure_reason")

CHECKS_MAX: Final = 10_000
"""Checks of one transaction that are shown."""

_Changed: TypeAlias = (
    transaction_pb.DecideTransactionResponse | transaction_pb.ResumeTransactionResponse
)

_list_options = with_options(
    click.option(
        "--group", "producer_group", default="", help="Only transactions of this producer group."
    ),
    click.option("--topic", default="", help="Only messages for this topic."),
    click.option("--broker", "broker_name", default="", help="Only transactions on this broker."),
    count_option(100),
    checker_option,
    output_option,
)
"""What both lists take."""

_bulk_options = with_options(
    click.option(
        "--group",
        "producer_group",
        default="",
        help="All parked transactions of this producer group.",
    ),
    click.option("--topic", default="", help="All parked transactions for this topic."),
)
"""How a command takes many transactions."""


@click.command("list")
@_list_options
def list_transactions(
    *, producer_group: str, topic: str, broker_name: str, count: int, checker: str, output: Output
) -> None:
    """List transactions under check, ordered by the time of their next check.

    \b
    Examples:
      ariane transaction list
      ariane transaction list --group payments -o json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = transaction_pb.ListTransactionsRequest(
        producer_group=producer_group, topic=topic, broker_name=broker_name
    )
    found = run_async(_first_transactions(checker, request, count))
    output.rows((*_COLUMNS, "next_check"), map(_transaction_row, found))


@click.command("parked")
@_list_options
def parked(
    *, producer_group: str, topic: str, broker_name: str, count: int, checker: str, output: Output
) -> None:
    """List parked transactions, which no producer could decide, the longest waiting first.

    \b
    Example:
      ariane transaction parked
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    request = transaction_pb.ListTransactionsRequest(
        parked=True, producer_group=producer_group, topic=topic, broker_name=broker_name
    )
    found = run_async(_first_transactions(checker, request, count))
    output.rows((*_COLUMNS, "ended"), map(_transaction_row, found))


@click.command("show")
@click.argument("transaction_id")
@checker_option
@output_option
def show(*, transaction_id: str, checker: str, output: Output) -> None:
    """Show transaction TRANSACTION_ID and the checks made with its producers.

    \b
    Example:
      ariane transaction show 7F0000010A2B18B4AAC20000C0DE0001
    """  # noqa: D301 - \b is click's mark for text that keeps its lines

    async def ask() -> tuple[Row, list[Row]]:
        async with _asked(checker) as asked:
            found = await _transaction(asked, transaction_id)
            checks: list[TransactionCheckRecord] = await all_pages(
                asked.peer,
                asked.transactions.ListTransactionChecks,
                transaction_pb.ListTransactionChecksRequest(transaction_id=transaction_id),
                lambda page: page.checks,
                count_max=CHECKS_MAX + 1,
            )
            return _transaction_row(found), list(map(_check_row, first_of(checks, CHECKS_MAX)))

    row, checks = run_async(ask())
    output.record(row, {"check_list": (_CHECK_COLUMNS, checks)})


@click.command("decide")
@click.argument("transaction_ids", nargs=-1, metavar="[TRANSACTION_ID]...")
@click.option("--commit/--rollback", default=None, help="The outcome; one of both is required.")
@click.option("--cause", required=True, help="Why; recorded with the outcome.")
@_bulk_options
@dry_run_option
@yes_option
@checker_option
@change_option
@output_option
def decide(
    *,
    transaction_ids: tuple[str, ...],
    commit: bool | None,
    cause: str,
    producer_group: str,
    topic: str,
    dry_run: bool,
    yes: bool,
    checker: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Commit or roll back transactions: those given, or all parked ones that match.

    A transaction that already has an outcome keeps it. Transactions given by id need not be parked.

    \b
    Examples:
      ariane transaction decide --topic orders --commit --cause "paid by hand" --dry-run
      ariane transaction decide 7F00... --rollback --cause "order 4711 was cancelled"
      ariane transaction decide --group payments --rollback --cause "test data" --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if commit is None:
        raise click.UsageError("give either --commit or --rollback")
    selection = ParkedSelection.of(transaction_ids, producer_group, topic)
    word = "Commit" if commit else "Roll back"
    if dry_run:

        async def count() -> dict[str, int]:
            async with _asked(checker) as asked:
                return await _outcome_counts(asked, selection)

        would = run_async(count())
        output.done(
            f"{counted(would['undecided'], 'transaction')} would be"
            f" {'committed' if commit else 'rolled back'}; with an outcome already, which"
            f" stays: {would['decided']:,}.",
            {**would, "outcome": "commit" if commit else "rollback", "dry_run": True},
        )
        return
    confirm(f"{word} {selection}? It cannot be undone.", yes=yes)

    outcome = TRANSACTION_OUTCOME_COMMIT if commit else TRANSACTION_OUTCOME_ROLLBACK

    def decision(transaction_id: str) -> transaction_pb.DecideTransactionRequest:
        return transaction_pb.DecideTransactionRequest(
            transaction_id=transaction_id, outcome=outcome, cause=cause
        )

    changing = _change_each(
        checker, admin, selection, lambda one: one.transactions.DecideTransaction, decision
    )
    end_with(run_async(changing), output, "has ended", "have ended", _transaction_row)


@click.command("resume")
@click.argument("transaction_ids", nargs=-1, metavar="[TRANSACTION_ID]...")
@_bulk_options
@yes_option
@checker_option
@change_option
@output_option
def resume(
    *,
    transaction_ids: tuple[str, ...],
    producer_group: str,
    topic: str,
    yes: bool,
    checker: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Ask the producers of parked transactions again, with the count of checks reset.

    \b
    Examples:
      ariane transaction resume 7F0000010A2B18B4AAC20000C0DE0001
      ariane transaction resume --topic orders --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    selection = ParkedSelection.of(transaction_ids, producer_group, topic)
    if not transaction_ids:
        confirm(f"Ask producers again about {selection}?", yes=yes)

    def resumption(transaction_id: str) -> transaction_pb.ResumeTransactionRequest:
        return transaction_pb.ResumeTransactionRequest(transaction_id=transaction_id)

    changing = _change_each(
        checker, admin, selection, lambda one: one.transactions.ResumeTransaction, resumption
    )
    end_with(run_async(changing), output, "is under check", "are under check", _transaction_row)


async def _change_each(
    checker: str,
    admin: AdminChoice,
    selection: ParkedSelection,
    method: Callable[[Services], Callable[..., Awaitable[_Changed]]],
    request_of: Callable[[str], Message],
) -> BulkOutcome:
    """Make a change of each selected transaction, with a request by its id."""
    # Transactions are the checker's: an admin of the same checker is one of the same cluster.
    async with administration(checker, admin, checker=checker) as changes, _hinted():

        async def change(transaction_id: str) -> CheckedTransaction:
            answer = await changes.ask(method(changes), request_of(transaction_id))
            return answer.transaction

        return await for_each(selection, _parked_ids(changes, selection), change)


async def _parked_ids(changes: Services, selection: ParkedSelection) -> AsyncIterator[list[str]]:
    """The ids of parked transactions, a page at a time; who is decided meanwhile is in no later."""
    request = transaction_pb.ListTransactionsRequest(
        parked=True,
        producer_group=selection.producer_group,
        topic=selection.topic,
        page_size=PAGE_SIZE,
    )
    while True:
        call = changes.ask(changes.transactions.ListTransactions, request)
        answer = await answer_to_question(call, changes.peer)
        yield [each.transaction_id for each in answer.transactions]
        request.page_token = answer.next_page_token
        if not request.page_token:
            return


@asynccontextmanager
async def _asked(checker: str) -> AsyncIterator[Questions]:
    # Transactions are the checker's: no name server is asked.
    async with questions(checker, (checker,)) as asked, _hinted():
        yield asked


@asynccontextmanager
async def _hinted() -> AsyncIterator[None]:
    """Say how to name a checker, when none answers in the block."""
    try:
        yield
    except ServiceUnavailable as error:
        error.add_note(f"give its address with --checker or {CHECKER_VARIABLE}")
        raise
    except FeatureNotAvailable as error:
        error.add_note(
            "no transaction checker answers there: give the address of one with --checker or"
            f" {CHECKER_VARIABLE}"
        )
        raise


async def _transaction(asked: Questions, transaction_id: str) -> CheckedTransaction:
    request = transaction_pb.GetTransactionRequest(transaction_id=transaction_id)
    return (await asked.transactions.GetTransaction(request)).transaction


async def _first_transactions(
    checker: str, request: transaction_pb.ListTransactionsRequest, count: int
) -> Sequence[CheckedTransaction]:
    """The first transactions of a list; a warning tells that there are more."""
    async with _asked(checker) as asked:
        found = await _transactions(asked, request, count_max=count + 1)
    return first_of(found, count)


async def _transactions(
    asked: Questions,
    request: transaction_pb.ListTransactionsRequest,
    *,
    count_max: int | None = None,
) -> list[CheckedTransaction]:
    return await all_pages(
        asked.peer,
        asked.transactions.ListTransactions,
        request,
        lambda page: page.transactions,
        count_max=count_max,
    )


async def _outcome_counts(asked: Questions, selection: ParkedSelection) -> dict[str, int]:
    """The numbers of selected transactions without and with an outcome, which decides nothing.

    Raises:
        CallError: The checker did not answer, or does not know one of them.
    """
    if selection.transaction_ids:
        found = [await _transaction(asked, each) for each in selection.transaction_ids]
        decided = sum(bool(each.outcome) for each in found)
        return {"undecided": len(found) - decided, "decided": decided}
    request = transaction_pb.ListTransactionsRequest(
        parked=True, producer_group=selection.producer_group, topic=selection.topic
    )
    return {"undecided": len(await _transactions(asked, request)), "decided": 0}


def _transaction_row(each: CheckedTransaction) -> Row:
    """A transaction as commands show it."""
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
    """One question to its producer, as commands show it."""
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
