"""``ariane spark redrive``: repair dead letters and send them back."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from ariane_pipelines.commands.shared import (
    EXIT_FAILED,
    Moment,
    master_option,
    name_servers_option,
    one_line_errors,
    output_option,
    running_spark,
    text_table,
    write_data,
)
from ariane_record.counted import counted
from ariane_spark.errors import OptionIllegal

if TYPE_CHECKING:
    from ariane_pipelines.redriving import RedrivePlan, RedriveReport

_ROWS_SHOWN: Final = 20

_EXAMPLES = """
\b
Examples:
  ariane spark redrive billing --state /data/redrive/billing --dry-run
  ariane spark redrive billing --state /data/redrive/billing --repair fixes:add_currency
  ariane spark redrive billing --state s3a://bucket/billing --reason REJECTED --to-topic bills

\b
where fixes.py, in the folder where the command is started, has
  from dataclasses import replace
  def add_currency(letter):  # an ariane_pipelines.Letter
      if letter.last_error != "no currency":
          return None  # left where it is
      return replace(letter, body=letter.body.replace(b"}", b', "currency": "EUR"}'))
"""


@click.command(epilog=_EXAMPLES, short_help="Repair dead letters and send them back, each once.")
@click.argument("group")
@click.option(
    "--state",
    required=True,
    metavar="DIR",
    help="Folder or URL that records which dead letters were sent.",
)
@click.option(
    "--repair",
    metavar="MODULE:FUNCTION",
    help="Function that takes a letter and returns it repaired, or None to drop it. By"
    " default letters are sent unchanged.",
)
@click.option(
    "--repair-table",
    metavar="MODULE:FUNCTION",
    help="Like --repair, for Arrow tables of letters; rows left out are dropped.",
)
@click.option(
    "--to-topic",
    "target",
    metavar="NAME",
    help="Send all letters to this topic. [default: the topic each came from]",
)
@click.option("--topic", metavar="NAME", help="Only dead letters from this topic.")
@click.option(
    "--reason", metavar="REASON", help="Only dead letters with this reason, such as REJECTED."
)
@click.option(
    "--since", type=Moment(), help="Only those that became dead letters at this time or later."
)
@click.option(
    "--until", type=Moment(), help="Only those that became dead letters before this time."
)
@click.option(
    "--at-least-once",
    is_flag=True,
    help="Allow duplicates, if a run is interrupted or a broker fails.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@name_servers_option
@master_option
@output_option
@one_line_errors
def redrive(
    *,
    group: str,
    state: str,
    repair: str | None,
    repair_table: str | None,
    target: str | None,
    topic: str | None,
    reason: str | None,
    since: datetime | None,
    until: datetime | None,
    at_least_once: bool,
    dry_run: bool,
    name_servers: str,
    master: str | None,
    data_format: str,
) -> None:
    """Repair the dead letters of GROUP, and send them back to their topics.

    Each dead letter is sent once: if the command is interrupted, run it again with the same
    --state. Dead letters are not deleted. Those that the function drops or fails on are reported,
    and are tried again in the next run. The exit status is 1 if the function failed on any.

    This command does not know what ariane dead-letter redrive has sent back, nor the other way
    round: using both may send a message twice.
    """
    from ariane_pipelines import LetterFilter, RedrivePlan  # noqa: PLC0415 - needs Spark.
    from ariane_pipelines.redriving import check_plan  # noqa: PLC0415 - the same.
    from ariane_pipelines.redriving import redrive as send_back  # noqa: PLC0415 - the same.

    plan = RedrivePlan(
        endpoints=name_servers,
        group=group,
        state=state,
        repair=shipped_function("repair", repair),
        repair_table=shipped_function("repair-table", repair_table),
        target=target,
        wanted=LetterFilter(topic=topic, reason=reason, since=since, until=until),
        exactly_once=not at_least_once,
        dry_run=dry_run,
    )
    check_plan(plan)
    with running_spark("redrive", master) as spark:
        report = send_back(spark, plan)
    _write(plan, report, data_format=data_format)
    if report.failed_count and not dry_run:
        sys.exit(EXIT_FAILED)


def _write(plan: RedrivePlan, report: RedriveReport, *, data_format: str) -> None:
    if data_format:
        row = {"group": plan.group, "letter_count": report.letter_count, **asdict(report)}
        write_data(row, data_format)
        return
    if report.reasons:
        click.echo(
            text_table(
                ("topic", "reason", "last error", "letters", "sent", "dropped", "failed"),
                [tuple(asdict(reason).values()) for reason in report.reasons[:_ROWS_SHOWN]],
            )
        )
        _write_more(len(report.reasons))
    if report.kept:
        click.echo(
            text_table(
                ("place", "outcome", "cause"),
                [tuple(asdict(letter).values()) for letter in report.kept[:_ROWS_SHOWN]],
            )
        )
        _write_more(report.dropped_count + report.failed_count)
    if report.finished_count:
        letters = counted(report.finished_count, "letter")
        click.echo(f"Sent first, of an interrupted run: {letters}.")
    for refusal in report.finished_refusals:
        click.echo(f"Not sent, of an interrupted run: topic {refusal.topic}: {refusal.cause}")
    done = "would be sent" if report.dry_run else "sent"
    click.echo(
        f"{report.sent_count:,} of {counted(report.letter_count, 'dead letter')} of {plan.group}"
        f" {done};"
        f" {report.dropped_count:,} dropped, {report.failed_count:,} failed;"
        f" {report.sent_before_count:,} were sent before."
    )


def _write_more(count: int) -> None:
    if count > _ROWS_SHOWN:
        click.echo(f"and {count - _ROWS_SHOWN:,} more\n")


def shipped_function(option: str, spec: str | None) -> Callable[..., Any] | None:
    """The function with a name; its module is sent to the tasks by value.

    The present folder is searched first. Imports of the module are not sent: they must be installed
    at the tasks, or given to Spark by ``--py-files``.

    Args:
        option: The option, for errors.
        spec: ``module:function``; or ``None``.

    Raises:
        OptionIllegal: There is no such function, or its module cannot be loaded.
    """
    if spec is None:
        return None
    module_name, colon, name = spec.partition(":")
    if not (colon and module_name and name):
        raise OptionIllegal(option, f"{spec!r} is not MODULE:FUNCTION")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
        function = getattr(module, name)
    except Exception as error:  # Any error of the user's module.
        raise OptionIllegal(option, f"{spec}: {' '.join(str(error).split())}") from error
    if not callable(function):
        raise OptionIllegal(option, f"{spec} is not a function")
    from pyspark import cloudpickle  # noqa: PLC0415 - help needs no Spark.

    register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    register(module)
    found: Callable[..., Any] = function
    return found
