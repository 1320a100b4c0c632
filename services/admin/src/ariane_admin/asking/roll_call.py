"""Who answers: what some brokers tell is shown, and said to be a part, when others keep silent.

For questions only. A change that a broker did not take is a failure (``cluster_doors.ask_each``).

Totals would be wrong without saying so: their rows have ``unanswered``, in JSON always. What lies
on one broker is right as it is, and says so nowhere: a list of messages, queues or dead letters may
be empty, and has no place for it then. Programs look at the exit status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.error_statuses import reasoned
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row
from ariane_sdk import ClusterClient, LiveBroker
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable

SILENT: Final = (ServiceUnavailable, DeadlinePassed)
"""How a broker fails that is frozen, dead, or cut off. Another error is an answer."""

_Answer = TypeVar("_Answer")


class RollCall:
    """Brokers that are asked side by side; one that did not answer is not asked again."""

    def __init__(self, brokers: Sequence[LiveBroker]) -> None:
        self.brokers = brokers
        self._silent: dict[str, CallError] = {}

    @property
    def unanswered(self) -> list[str]:
        """Names of the brokers that did not answer."""
        return sorted(self._silent)

    @property
    def status(self) -> ExitStatus:
        """How a command ends that has shown what was answered."""
        return ExitStatus.UNREACHABLE if self._silent else ExitStatus.DONE

    async def ask(
        self, ask: Callable[[LiveBroker], Awaitable[_Answer]], *, nobody_ok: bool = False
    ) -> list[_Answer]:
        """The answers, in the order of the brokers. Warns once of each that keeps silent.

        Args:
            ask: The question; must change nothing.
            nobody_ok: Whether the command has something to show when nobody answers.

        Raises:
            CallError: A broker answered with an error, or nobody answered.
        """
        asked = [one for one in self.brokers if one.broker_name not in self._silent]
        answers = await asyncio.gather(*map(ask, asked), return_exceptions=True)
        told: list[_Answer] = []
        fresh: list[CallError] = []
        for broker, answer in zip(asked, answers, strict=True):
            if isinstance(answer, SILENT):
                answer.outcome_unknown = False
                self._silent[broker.broker_name] = answer
                fresh.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                told.append(answer)
        if self._silent and not told and not nobody_ok:
            raise next(iter(self._silent.values()))
        for error in fresh:
            _warn(error)
        return told

    def leave_out(self, broker_name: str, error: CallError) -> None:
        """Do without a broker that answered first and fell silent while it was read.

        Args:
            broker_name: The broker.
            error: How it failed.

        Raises:
            CallError: No other is left.
        """
        error.outcome_unknown = False
        self._silent[broker_name] = error
        if len(self._silent) == len(self.brokers):
            raise error
        _warn(error)


def _warn(error: CallError) -> None:
    say_warning(f"shown without a broker that does not answer: {reasoned(error)}")


async def known_groups(
    client: ClusterClient, roll: RollCall, *, nobody_ok: bool = False
) -> list[str]:
    """The consumer groups that brokers know, by name.

    Args:
        client: Asks them.
        roll: Whom to ask.
        nobody_ok: As ``RollCall.ask``.

    Raises:
        CallError: As ``RollCall.ask``.
    """

    async def at(broker: LiveBroker) -> list[str]:
        return await client.list_groups(include_system=True, broker_names=[broker.broker_name])

    return sorted({name for names in await roll.ask(at, nobody_ok=nobody_ok) for name in names})


def unknown_among_answers(name: str) -> CommandFailed:
    """What is raised where a group is not known, and may be to who did not answer."""
    return CommandFailed(f"no broker that answers knows group {name!r}", ExitStatus.UNREACHABLE)


def write_rows(
    output: Output,
    roll: RollCall,
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    totals: Sequence[str],
) -> ExitStatus:
    """Write a list of totals over brokers; how the command ends.

    JSON names those that did not answer in each row. A table does where there are some.

    Args:
        output: Where to.
        roll: Who was asked.
        columns: As with ``Output.rows``.
        rows: The list.
        totals: Fields that may be more than is known when somebody did not answer.
    """
    marked = [marked_row(output, roll, row, totals) for row in rows]
    output.rows((*columns, "unanswered") if roll.unanswered else columns, marked)
    return roll.status


def marked_row(output: Output, roll: RollCall, row: Row, totals: Sequence[str]) -> Row:
    """A row with who did not answer; for people, totals are a least then, and not else named."""
    if output.for_programs:
        return {**row, "unanswered": roll.unanswered}
    if not roll.unanswered:
        return row
    known = (name for name in totals if row[name] is not None)
    return {
        **row,
        **{name: f">= {row[name]:,}" for name in known},
        "unanswered": roll.unanswered,
    }
