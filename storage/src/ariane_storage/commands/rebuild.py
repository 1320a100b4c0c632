"""``ariane store rebuild``: everything derived, built again from the commit log."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ariane_storage.commands.output import (
    EXIT_DAMAGED,
    folder_argument,
    format_option,
    one_line_errors,
    print_summary,
    progress_on_stderr,
)
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.layout import check_sizes_known
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.store import Store

_EXAMPLES: Final = """
\b
Example:
  ariane store rebuild /var/lib/ariane/broker-a
"""


@click.command(
    name="rebuild", epilog=_EXAMPLES, short_help="Rebuild the consume queues and the index."
)
@folder_argument
@format_option
@one_line_errors
def rebuild(folder: Path, output_format: str) -> None:
    """Rebuild consume queues and index of the closed store in DIR from its commit log.

    The log itself is recovered first, as when a broker starts: a torn tail is cut, and damage is
    quarantined. The exit status is 1 if there is damage.
    """
    disk = OsDisk()
    with ClosedStore(folder, disk) as store:
        config = store.config
    check_sizes_known(folder, disk)
    with (
        progress_on_stderr() as progress,
        Store.open(folder, config, disk=disk, progress=progress, rebuild=True) as opened,
    ):
        report = opened.recovery
        queues = len(opened.queues())
    summary = {
        "records": report.records,
        "queues": queues,
        "end_offset": report.end_offset,
        "cut": str(report.cut_reason) if report.cut_reason is not None else None,
        "cut_records": report.cut_records,
        "damaged": len(report.damage),
    }
    print_summary(summary, output_format)
    if report.damage:
        raise SystemExit(EXIT_DAMAGED)
