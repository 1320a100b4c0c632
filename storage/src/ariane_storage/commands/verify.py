"""``ariane store verify``: is a store sound, in a few figures."""

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
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.finding import FindingState, lost_messages
from ariane_storage.offline.inspection import inspect

_EXAMPLES: Final = """
\b
Example:
  ariane store verify /var/lib/ariane/broker-a -o json
"""


@click.command(
    name="verify",
    epilog=_EXAMPLES,
    short_help="Check every record and everything that leads to one.",
)
@folder_argument
@format_option
@one_line_errors
def verify(folder: Path, output_format: str) -> None:
    """Check every record of the closed store in DIR, and everything that leads to one.

    "damaged" counts the damaged ranges of the commit log, "quarantined" those of them that are
    known and skipped, "lost_messages" the messages that queues have lost for good, "findings"
    all problems, "to_repair" those that "ariane store fsck --repair" fixes, and "by_hand" those
    that only you can fix; "ariane store fsck" lists them. The exit status is 1 if there is any
    problem other than a torn tail, which the broker cuts at its next start.
    """
    with ClosedStore(folder, OsDisk()) as store, progress_on_stderr() as progress:
        found = inspect(store, progress)
        summary = {
            "records": found.records,
            "topics": len(found.topics),
            "queues": len(found.queue_spans),
            "damaged": len(found.damaged),
            "quarantined": sum(f.state is FindingState.QUARANTINED for f in found.damaged),
            "lost_messages": lost_messages(found.findings),
            "findings": len(found.findings),
            "to_repair": sum(f.state is FindingState.OPEN for f in found.findings),
            "by_hand": sum(f.state is FindingState.BY_HAND for f in found.findings),
            "first_offset": found.first_offset,
            "last_offset": found.last_offset,
            "end_offset": found.end_offset,
            "stopped_cleanly": not store.crashed,
        }
    print_summary(summary, output_format)
    if not found.is_sound:
        raise SystemExit(EXIT_DAMAGED)
