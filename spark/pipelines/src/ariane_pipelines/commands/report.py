"""``ariane spark report``: lag, rates, journeys and traces in one HTML file."""

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

if TYPE_CHECKING:
    from ariane_pipelines.report_facts import ReportFacts

_EXAMPLES = """
\b
Examples:
  ariane spark report --to report.html
  ariane spark report --to orders.html --pattern 'orders-.*' --since 7d
"""


@click.command(
    epilog=_EXAMPLES, short_help="Write lag, rates, journeys and traces to an HTML file."
)
@click.option(
    "--to", "path", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file."
)
@click.option("--since", type=Moment(), default="1h", show_default=True, help="Begin of its span.")
@click.option("--until", type=Moment(), default="0s", help="End of its span.  [default: now]")
@click.option("--pattern", default=".*", show_default=True, metavar="REGEX", help="Which topics.")
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
    """Tell what was stored in a span of time, its traces, and how far consumer groups are behind.

    One file of HTML, with tables and charts, that loads nothing from elsewhere. Only headers of
    messages are read, no bodies.
    """
    if until <= since:
        raise click.UsageError("--until is not behind --since")
    if not path.parent.is_dir():
        raise click.UsageError(f"there is no folder {path.parent}")
    from ariane_pipelines import write_report  # noqa: PLC0415 - needs Spark.

    with running_spark("report", master) as spark:
        facts = write_report(spark, name_servers, path, since=since, until=until, pattern=pattern)
    if data_format:
        write_data(_for_programs(path, facts), data_format)
        return
    count = sum(topic.message_count for topic in facts.topics)
    click.echo(f"{count:,} messages of {len(facts.topics)} topics, told in {path}")


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
