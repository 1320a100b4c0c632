"""``ariane broker clean``: delete old segments by hand."""

from __future__ import annotations

import click

from ariane.admin.v1.cluster_service_pb2 import CleanBrokerRequest
from ariane_admin.asking.changing.changes import AdminChoice, change_options, changed
from ariane_admin.counted import counted
from ariane_admin.terminal.confirmation import confirm, dry_run_option, yes_option
from ariane_admin.terminal.output import Output
from ariane_admin.times import moment_text


@click.command("clean")
@click.argument("name")
@dry_run_option
@yes_option
@change_options
def clean(
    *,
    name: str,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    admin: AdminChoice,
    output: Output,
) -> None:
    """Delete what broker NAME keeps longer than it must, now and not at the set hour.

    Whole segments of the commit log go whose messages are all older than retention_hours, consumed
    or not; --dry-run shows how many, and their bytes. Log and queues begin behind them at once;
    the files are deleted one after another with a pause, so that senders and readers do not wait
    for the disk. Replicas follow their primary.

    \b
    Examples:
      ariane broker clean broker-a --dry-run
      ariane broker clean broker-a --yes
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    if not dry_run:
        confirm(f"Delete the old messages of broker {name}?", yes=yes)
    request = CleanBrokerRequest(broker_name=name, validate_only=dry_run)
    answer = changed(name_servers, admin, lambda one: one.cluster.CleanBroker, request)
    cleaned = answer.cleaned
    does = "would delete" if dry_run else "deletes"
    output.done(
        f"Broker {name} {does} {counted(cleaned.segment_count, 'segment')} of"
        f" {counted(cleaned.byte_count, 'byte')},"
        f" with {counted(cleaned.message_count, 'message')}.",
        {
            "broker": name,
            "segments": cleaned.segment_count,
            "bytes": cleaned.byte_count,
            "messages": cleaned.message_count,
            "min_commit_log_offset": cleaned.min_commit_log_offset,
            "stored_until": moment_text(cleaned, "store_time_end"),
            "dry_run": dry_run,
        },
    )
