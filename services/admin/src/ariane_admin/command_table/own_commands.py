"""All own commands of ``ariane``, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane_admin.command_table.cluster_commands import CLUSTER_COMMANDS
from ariane_admin.command_table.entries import CommandGroup, LazyCommand
from ariane_admin.command_table.message_commands import MESSAGE_COMMANDS
from ariane_admin.command_table.security_commands import SECURITY_COMMANDS

OWN_COMMANDS: Final[Mapping[str, LazyCommand | CommandGroup]] = dict(
    sorted({**CLUSTER_COMMANDS, **MESSAGE_COMMANDS, **SECURITY_COMMANDS}.items())
)
