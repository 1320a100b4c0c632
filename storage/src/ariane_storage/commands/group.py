"""The command group ``ariane store`` and the shared part of its commands.

Exit statuses: 0 all is well; 1 damage was found; 2 the command could not do its work.
"""

from __future__ import annotations

from typing import Final

import click

from ariane_storage.commands.dump import dump
from ariane_storage.commands.fsck import fsck
from ariane_storage.commands.rebuild import rebuild
from ariane_storage.commands.verify import verify

_HELP: Final = """Inspect, check and repair a closed store.

DIR is the folder of a store, the one that contains commitlog/. No broker may have it open. Only
"rebuild" and "fsck --repair" change anything.

Exit status: 0 no damage, 1 damage was found, 2 the command failed.

\b
Examples:
  ariane store verify /var/lib/ariane/broker-a
  ariane store dump /var/lib/ariane/broker-a -o jsonl | head
"""


# As `ariane` has them: click keeps the help option of a command from the first context that asked.
@click.group(name="store", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
def store() -> None:
    """Hold the commands together."""


for command in (dump, verify, fsck, rebuild):
    store.add_command(command)
