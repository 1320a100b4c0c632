"""Every own command of ``ariane``: where it is, and the line that lists show of it.

Help of the root and of groups, completion and a mistyped name need this table alone; no command is
loaded for them. A test compares each line with the command's own help.
"""

from ariane_admin.command_table.entries import CommandGroup, LazyCommand
from ariane_admin.command_table.own_commands import OWN_COMMANDS

__all__ = ["OWN_COMMANDS", "CommandGroup", "LazyCommand"]
