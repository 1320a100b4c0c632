"""``ariane store fsck``: what is wrong with a store, by range and reason."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ariane_storage.closed_store import ClosedStore
from ariane_storage.commands.output import (
    EXIT_DAMAGED,
    folder_argument,
    format_option,
    one_line_errors,
    print_rows,
    progress_on_stderr,
)
from ariane_storage.inspection import inspect
from ariane_storage.os_disk import OsDisk
from ariane_storage.store import Store

_COLUMNS: Final = ("where", "reason", "begin", "end", "topic", "queue_id")


_EXAMPLES: Final = """
\b
Examples:
  ariane store fsck /var/lib/ariane/broker-a
  ariane store fsck /var/lib/ariane/broker-a --repair -o jsonl
"""


@click.command(name="fsck", epilog=_EXAMPLES, short_help="List damage by range and reason.")
@folder_argument
@format_option
@click.option(
    "--repair",
    is_flag=True,
    help="Recover first, as a broker does when it starts: cut a torn tail, quarantine damage.",
)
@one_line_errors
def fsck(folder: Path, output_format: str, *, repair: bool) -> None:
    """List everything in the closed store in DIR that is not as it should be.

    Nothing is changed unless --repair is given. What is derived is mended by "ariane store
    rebuild". The exit status is 1 if there is anything but a torn tail.
    """
    disk = OsDisk()
    with progress_on_stderr() as progress:
        if repair:
            with ClosedStore(folder, disk) as store:
                config = store.config
            Store.open(folder, config, disk=disk, progress=progress).close()
        with ClosedStore(folder, disk) as store:
            found = inspect(store, progress)
    if found.findings or output_format != "table":
        print_rows(map(asdict, found.findings), _COLUMNS, output_format)
    else:
        click.echo(f"{found.records} records, nothing is wrong")
    if not found.is_sound:
        raise SystemExit(EXIT_DAMAGED)
