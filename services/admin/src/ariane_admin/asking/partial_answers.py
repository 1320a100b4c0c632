"""The brokers that a command asks: the result lacks silent ones, and a warning names them.

Totals without silent brokers are too small: their rows have the field ``unanswered``, in JSON
always. Rows of one broker are right as they are and have no such field: a list of messages, queues
or dead letters may be empty, with no row to carry it. Programs use the exit status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from typing_extensions import override

from ariane_admin.asking.answers import Answers
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.error_statuses import reasoned
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row
from ariane_sdk.errors import CallError, GroupNotFound


class Partial(Protocol):
    """Questions to brokers, some of which may not have answered."""

    @property
    def unanswered(self) -> list[str]:
        """Names of the brokers that did not answer."""
        ...

    @property
    def status(self) -> ExitStatus:
        """The exit status of a command that has shown the answers."""
        ...


class PartialAnswers(Answers):
    """The brokers that a command asks; it warns of brokers that do not answer."""

    @override
    def unreachable(self, error: CallError) -> None:
        say_warning(f"a broker does not answer, and the result lacks it: {reasoned(error)}")


class CompleteAnswers(Answers):
    """The brokers that a command asks before a change: one that does not answer is an error."""

    @override
    def unreachable(self, error: CallError) -> None:
        raise error


def unknown_group(name: str, answers: Partial) -> Exception:
    """The error for an unknown group, which a broker that did not answer may know."""
    if answers.unanswered:
        return CommandFailed(f"no broker that answers knows group {name!r}", ExitStatus.UNREACHABLE)
    return GroupNotFound(f"no broker knows group {name!r}; ariane group list shows all")


def write_rows(
    output: Output,
    answers: Partial,
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    totals: Sequence[str],
) -> ExitStatus:
    """Write a list of totals over brokers; return the exit status.

    JSON names silent brokers in each row; a table only if there are some.

    Args:
        output: The output.
        answers: The brokers that were asked.
        columns: As with ``Output.rows``.
        rows: The list.
        totals: Fields whose true value may be larger if a broker did not answer.
    """
    marked = [marked_row(output, answers, row, totals) for row in rows]
    output.rows((*columns, "unanswered") if answers.unanswered else columns, marked)
    return answers.status


def marked_row(output: Output, answers: Partial, row: Row, totals: Sequence[str]) -> Row:
    """A row with the silent brokers; in tables its totals are then marked as minimums."""
    if output.for_programs:
        return {**row, "unanswered": answers.unanswered}
    if not answers.unanswered:
        return row
    known = (name for name in totals if row[name] is not None)
    return {
        **row,
        **{name: f">= {row[name]:,}" for name in known},
        "unanswered": answers.unanswered,
    }
