"""``ariane spark sessions``: event-time sessions per key, written back."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from ariane_pipelines.commands.shared import (
    batch_option,
    group_option,
    master_option,
    name_servers_option,
    one_line_errors,
    output_option,
    running_spark,
    write_data,
)
from ariane_record.counted import are, counted

_EXAMPLES = """
\b
Examples:
  ariane spark sessions clicks visits --gap '30 minutes' --checkpoint /data/visits
  ariane spark sessions clicks visits --gap '30 minutes' --checkpoint /data/visits \\
      --key "get_json_object(text, '$.user')" --time "get_json_object(text, '$.at')" \\
      --watermark '1 hour' --total "spent=sum(cast(get_json_object(text, '$.eur') AS double))" \\
      --every '10 seconds'
"""


class _Total(click.ParamType[tuple[str, str]]):
    """A field of a session: ``NAME=EXPRESSION``."""

    name = "NAME=EXPR"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Read it."""
        name, equals, expression = str(value).partition("=")
        if not (equals and name.isidentifier() and expression.strip()):
            self.fail(f"{value!r} is not NAME=EXPRESSION", param, ctx)
        return name, expression


@click.command(
    epilog=_EXAMPLES, short_help="Group events into sessions, and write them to a topic."
)
@click.argument("topic")
@click.argument("target")
@click.option(
    "--gap", required=True, metavar="SPAN", help="A session ends after this time without an event."
)
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Folder or URL that stores progress and open sessions.",
)
@click.option(
    "--watermark",
    default="10 minutes",
    show_default=True,
    metavar="SPAN",
    help="How late events may arrive; later ones are dropped.",
)
@click.option(
    "--key",
    default="messageGroup",
    show_default=True,
    help="SQL expression for whose event it is; sessions are per key.",
)
@click.option(
    "--time",
    default="bornTimestamp",
    show_default=True,
    help="SQL expression for the time of an event.",
)
@click.option("--where", metavar="EXPR", help="Only events for which this SQL expression is true.")
@click.option(
    "--total",
    "totals",
    type=_Total(),
    multiple=True,
    help="Further field of a session, an aggregating SQL expression; may be repeated.",
)
@click.option(
    "--every",
    metavar="SPAN",
    help="Do not stop, and process new events at this interval, such as '10 seconds'.",
)
@batch_option
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Number of partitions of open sessions; the first run fixes it for the checkpoint.",
)
@group_option
@name_servers_option
@master_option
@output_option
@one_line_errors
def sessions(
    *,
    topic: str,
    target: str,
    gap: str,
    checkpoint: str,
    watermark: str,
    key: str,
    time: str,
    where: str | None,
    totals: tuple[tuple[str, str], ...],
    every: str | None,
    batch_records_max: int,
    partitions: int,
    group: str | None,
    name_servers: str,
    master: str | None,
    data_format: str,
) -> None:
    """Group the events of TOPIC into sessions, and write each closed session once to topic TARGET.

    It continues where its checkpoint ends, and stops when all events that were stored at its
    start are processed; sessions still open wait for the next run. SQL expressions are Spark SQL
    over the columns of a message, and the column "text", which is the body as text.
    """
    from ariane_pipelines.sessions import (  # noqa: PLC0415 - needs Spark.
        SessionsPlan,
        check_plan,
        session_counts,
        start_sessions,
    )
    from ariane_spark.progress.progress_listener import watched  # noqa: PLC0415 - the same.

    plan = SessionsPlan(
        endpoints=name_servers,
        topic=topic,
        target=target,
        checkpoint=checkpoint,
        gap=gap,
        watermark=watermark,
        key=key,
        time=time,
        where=where,
        totals=dict(totals),
        batch_records_max=batch_records_max,
        options={} if group is None else {"commitGroup": group},
    )
    check_plan(plan)
    settings = {"spark.sql.shuffle.partitions": str(partitions)}
    if every is None:
        # All progress of a run that ends is kept: it tells how many sessions there were.
        settings["spark.sql.streaming.numRecentProgressUpdates"] = "100000"
    with (
        running_spark("sessions", master, settings) as spark,
        watched(spark, log=False, bar=sys.stderr.isatty()),
    ):
        query = start_sessions(spark, plan, every=every)
        query.awaitTermination()
        counts = session_counts(query)
    if data_format:
        write_data({"topic": topic, "target": target, **asdict(counts)}, data_format)
        return
    click.echo(
        f"{counted(counts.message_count, 'message')} of {topic} read;"
        f" {counted(counts.session_count, 'session')} of {counted(counts.event_count, 'event')}"
        f" written to {target}; {counts.open_count:,} {are(counts.open_count)} open,"
        f" {counted(counts.late_count, 'event')} came too late"
    )
