"""``ariane spark replay``: send the messages of a time span to a topic again."""

from __future__ import annotations

from datetime import datetime

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

_EXAMPLES = """
\b
Examples:
  ariane spark replay orders orders-again --since 2h --until 1h
  ariane spark replay orders orders-again --since 2013-02-08T00:00Z --until 2013-02-09T00:00Z \\
      --archive /data/archive --tag 'created || paid'
"""


@click.command(epilog=_EXAMPLES, short_help="Send the messages of a time span again.")
@click.argument("source")
@click.argument("target")
@click.option(
    "--since", type=Moment(), required=True, help="Only messages stored at this time or later."
)
@click.option(
    "--until",
    type=Moment(),
    default="0s",
    help="Only messages stored before this time. [default: now]",
)
@click.option("--tag", metavar="TAGS", help="Only messages with this tag, or 'one || another'.")
@click.option("--archive", metavar="DIR", help="Read this archive instead of the queue.")
@click.option(
    "--target-name-servers",
    metavar="HOST:PORT,...",
    help="Name servers of the cluster of TARGET, if it is another one.",
)
@name_servers_option
@master_option
@output_option
@one_line_errors
def replay(
    *,
    source: str,
    target: str,
    since: datetime,
    until: datetime,
    tag: str | None,
    archive: str | None,
    target_name_servers: str | None,
    name_servers: str,
    master: str | None,
    data_format: str,
) -> None:
    """Send the messages of topic SOURCE from a time span to topic TARGET.

    Messages keep body, tag, keys, message group and properties; the property replayedFrom names
    the original message. A failed replay may have sent some messages already: a second run sends
    them again, with the same replayedFrom.
    """
    from ariane_pipelines import ReplayPlan  # noqa: PLC0415 - needs Spark.
    from ariane_pipelines.replaying import check_plan  # noqa: PLC0415 - the same.
    from ariane_pipelines.replaying import replay as send_again  # noqa: PLC0415 - the same.

    plan = ReplayPlan(
        endpoints=name_servers,
        source=source,
        target=target,
        since=since,
        until=until,
        tag=tag,
        archive=archive,
        target_endpoints=target_name_servers,
    )
    check_plan(plan)
    with running_spark("replay", master) as spark:
        count = send_again(spark, plan)
    if data_format:
        write_data({"source": source, "target": target, "message_count": count}, data_format)
        return
    click.echo(f"{counted(count, 'message')} of {source} sent to {target}")
