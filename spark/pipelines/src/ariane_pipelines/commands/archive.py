"""``ariane spark archive``: topics into Parquet."""

from __future__ import annotations

import sys

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
from ariane_record.counted import counted

_EXAMPLES = """
\b
Examples:
  ariane spark archive orders refunds --to /data/archive
  ariane spark archive --pattern 'orders-.*' --to s3a://bucket/archive --every '10 minutes'
"""


@click.command(epilog=_EXAMPLES, short_help="Write topics to Parquet, by date and topic.")
@click.argument("topics", nargs=-1)
@click.option("--to", "folder", required=True, metavar="DIR", help="Folder or URL of the archive.")
@click.option(
    "--pattern",
    metavar="REGEX",
    help="Archive the topics that match this regular expression instead.",
)
@click.option(
    "--every",
    metavar="SPAN",
    help="Do not stop, and archive new messages at this interval, such as '10 minutes'.",
)
@click.option(
    "--files",
    "files_max",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Maximum number of files per date and topic in one micro-batch.",
)
@batch_option
@group_option
@name_servers_option
@master_option
@output_option
@one_line_errors
def archive(
    *,
    topics: tuple[str, ...],
    folder: str,
    pattern: str | None,
    every: str | None,
    files_max: int,
    batch_records_max: int,
    group: str | None,
    name_servers: str,
    master: str | None,
    data_format: str,
) -> None:
    """Write TOPICS to Parquet, by date and topic, each message once.

    It continues where the archive ends, and stops when all messages that were stored at its
    start are archived. Only one such command may write to an archive at a time.
    """
    if bool(topics) == bool(pattern):
        raise click.UsageError("give either topics or --pattern")
    from ariane_pipelines import ArchivePlan, start_archive  # noqa: PLC0415 - needs Spark.
    from ariane_spark.progress.progress_listener import watched  # noqa: PLC0415 - the same.

    plan = ArchivePlan(
        endpoints=name_servers,
        folder=folder,
        topics=topics,
        pattern=pattern,
        files_max=files_max,
        batch_records_max=batch_records_max,
        options={} if group is None else {"commitGroup": group},
    )
    interactive = sys.stderr.isatty()
    # All progress of a run that ends is kept: it tells how many messages there were.
    kept = {"spark.sql.streaming.numRecentProgressUpdates": "100000"} if every is None else {}
    with (
        running_spark("archive", master, kept) as spark,
        watched(spark, log=False, bar=interactive),
    ):
        query = start_archive(spark, plan, every=every)
        query.awaitTermination()
        count = sum(progress["numInputRows"] for progress in query.recentProgress)
    if data_format:
        write_data({"folder": folder, "message_count": count}, data_format)
        return
    click.echo(f"{counted(count, 'message')} archived to {folder}")
