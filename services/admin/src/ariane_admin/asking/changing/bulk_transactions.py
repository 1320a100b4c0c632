"""Changes of many transactions: named ones, or all parked ones that match."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

import click

from ariane.transaction.v1.checked_transaction_pb2 import CheckedTransaction
from ariane_admin.counted import counted
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.error_statuses import exit_status_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row
from ariane_sdk.errors import ArianeError

CALLS_MAX: Final = 16
"""Calls at a time."""

REASONS_SHOWN_MAX: Final = 3


class ParkedSelection(NamedTuple):
    """A selection of transactions: some by their ids, or all parked ones that match."""

    transaction_ids: tuple[str, ...]
    producer_group: str
    topic: str

    @classmethod
    def of(cls, transaction_ids: Sequence[str], producer_group: str, topic: str) -> Self:
        """The selection of a command line.

        Raises:
            click.UsageError: It names transactions and a group or topic, or neither.
        """
        if bool(transaction_ids) == bool(producer_group or topic):
            raise click.UsageError("give transaction ids, or else --group, --topic, or both")
        return cls(tuple(dict.fromkeys(transaction_ids)), producer_group, topic)

    def __str__(self) -> str:
        if len(self.transaction_ids) == 1:
            return f"transaction {self.transaction_ids[0]}"
        if self.transaction_ids:
            return counted(len(self.transaction_ids), "transaction")
        group = f" of group {self.producer_group}" if self.producer_group else ""
        topic = f" for topic {self.topic}" if self.topic else ""
        return f"all parked transactions{group}{topic}"


@dataclass(slots=True)
class BulkOutcome:
    """The outcome of a change of many transactions."""

    selection: ParkedSelection
    """The transactions."""
    done_count: int = 0
    """Number of changed ones."""
    last: CheckedTransaction | None = None
    """The last changed one."""
    failures: Counter[str] = field(default_factory=Counter)
    """Number of failures by reason."""
    error: ArianeError | None = None
    """The first failure."""


async def for_each(
    selection: ParkedSelection,
    parked_ids: AsyncIterator[list[str]],
    act: Callable[[str], Awaitable[CheckedTransaction]],
) -> BulkOutcome:
    """Change each, several at a time; a failure does not stop the others.

    Args:
        selection: The transactions.
        parked_ids: Ids of parked ones that match; not used if ids are named.
        act: Changes one.
    """
    outcome = BulkOutcome(selection)
    room = asyncio.Semaphore(CALLS_MAX)

    async def act_on(transaction_id: str) -> None:
        async with room:
            try:
                outcome.last = await act(transaction_id)
            except ArianeError as error:
                outcome.error = outcome.error or error
                outcome.failures[error.reason or type(error).__name__] += 1
            else:
                outcome.done_count += 1

    if selection.transaction_ids:
        await asyncio.gather(*map(act_on, selection.transaction_ids))
        return outcome
    async for page in parked_ids:
        await asyncio.gather(*map(act_on, page))
    return outcome


def end_with(
    outcome: BulkOutcome,
    output: Output,
    one_is: str,
    many_are: str,
    row_of: Callable[[CheckedTransaction], Row],
) -> None:
    """Write the outcome.

    Args:
        outcome: The outcome.
        output: The output.
        one_is: The predicate for one, such as "has ended".
        many_are: The predicate for many.
        row_of: Makes a row for programs.

    Raises:
        ArianeError: The only named one was not changed.
        CommandFailed: Some were not changed.
    """
    selection, error = outcome.selection, outcome.error
    if len(selection.transaction_ids) == 1:
        if outcome.last is None:
            raise error or AssertionError("neither done nor failed")
        row = row_of(outcome.last)
        ended = f": {row['outcome']}" if row["outcome"] else ""
        output.done(f"Transaction {row['transaction_id']} {one_is}{ended}.", row)
        return
    failed_count = outcome.failures.total()
    done = counted(outcome.done_count, "transaction")
    text = f"{done} {one_is if outcome.done_count == 1 else many_are}"
    if error is not None:
        common = outcome.failures.most_common(REASONS_SHOWN_MAX)
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in common)
        raise CommandFailed(
            f"{text}; not done: {failed_count:,} ({reasons}); the first: {error}",
            exit_status_of(error) or ExitStatus.FAILED,
        )
    output.done(f"{text}.", {"done": outcome.done_count, "failed": failed_count})
