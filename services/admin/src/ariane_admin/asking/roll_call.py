"""What some brokers tell a command is shown, and said to be a part, when others keep silent.

Totals would be wrong without saying so: their rows have ``unanswered``, in JSON always. What lies
on one broker is right as it is, and says so nowhere: a list of messages, queues or dead letters may
be empty, and has no place for it then. Programs look at the exit status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from typing_extensions import override

from ariane_admin.asking.answers import Answers
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.error_statuses import reasoned
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import Output, Row
from ariane_sdk import ClusterClient, LiveBroker
from ariane_sdk.errors import CallError


class RollCall(Answers):
    """Who answers a command: what is shown without somebody is said to be a part, by a warning."""

    @property
    def status(self) -> ExitStatus:
        """How a command ends that has shown what was answered."""
        return ExitStatus.UNREACHABLE if self.silent else ExitStatus.DONE

    @override
    def fell_silent(self, error: CallError) -> None:
        say_warning(f"a broker does not answer, and the result lacks it: {reasoned(error)}")


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
