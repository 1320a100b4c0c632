"""The entries of the table for commands that are not loaded, and for groups of commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class LazyCommand(NamedTuple):
    """A command that is loaded when it is run.

    Attributes:
        place: Its ``module:attribute``.
        help: The first sentence of its help.
    """

    place: str
    help: str


class CommandGroup(NamedTuple):
    """A group of commands, such as ``ariane topic``.

    Attributes:
        help: What its help says of it.
        commands: Its commands by name.
        examples: Command lines that its help shows.
    """

    help: str
    commands: Mapping[str, LazyCommand | CommandGroup]
    examples: Sequence[str]
