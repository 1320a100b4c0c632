"""``ariane spark report``: lag, rates, delivery times and traces in one HTML file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ariane_pipelines.commands.shared import (
    Moment,
    master_option,
    name_servers_option,
    one_line_errors,
    output_option,
    running_spark,
    write_data,
)
from ariane_record.counted import counted

if TYPE_CHECKING:
    from ariane_pipelines.report_facts import ReportFacts

_EXAMPLES = """
\b
Examples:
  ariane spark report --to report.html
  ariane spark report --to orders.html --pattern 'orders-.*' --since 7d
"""


@click.command(
    epilog=_EXAMPLES, short_help="Write an HTML report of lag, rates, delivery times and traces."
)
@click.option(
    "--to",
    "path",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="HTML file to write.",
)
@click.option(
    "--since",
    type=Moment(),
    default="1h",
    show_default=True,
    help="Begin of the time span: a time, or how long ago.",
)
@click.option("--until", type=Moment(), default="0s", help="End of the time span. [default: now]")
@click.option(
    "--pattern",
    default=".*",
    show_default=True,
    metavar="REGEX",
    help="Only topics that match this regular expression.",
)
@name_servers_option
@master_option
@output_option
@one_line_errors
def report(
    *,
    path: Path,
    since: datetime,
    until: datetime,
    pattern: str,
    name_servers: str,
    master: str | None,
    data_format: str,
) -> None:
    """Report what was stored in a time span, its traces, and the lag of consumer groups.

    The report is one self-contained HTML file with tables and charts. Only the headers of
    messages are read, not their bodies.
    """
    if until <= since:
        raise click.UsageError("--until must be later than --since")
    if not path.parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent}")
    from ariane_pipelines import write_report  # noqa: PLC0415 - needs Spark.

    with running_spark("report", master) as spark:
        facts = write_report(spark, name_servers, path, since=since, until=until, pattern=pattern)
    if data_format:
        write_data(_for_programs(path, facts), data_format)
        return
    count = sum(topic.message_count for topic in facts.topics)
    topics = counted(len(facts.topics), "topic")
    click.echo(f"{counted(count, 'message')} of {topics}, reported in {path}")


def _for_programs(path: Path, facts: ReportFacts) -> dict[str, object]:
    return {
        "path": str(path),
        "topics": [
            {
                "topic": topic.topic,
                "message_count": topic.message_count,
                "again_count": topic.again_count,
            }
            for topic in facts.topics
        ],
        "groups": [
            {"group": group.group, "topic": group.topic, "lag": group.lag} for group in facts.groups
        ],
    }
