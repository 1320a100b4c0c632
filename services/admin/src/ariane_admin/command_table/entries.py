"""The entries of the table for commands that are not loaded, and for groups of commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class LazyCommand(NamedTuple):
    """A command that is loaded when it is run."""

    place: str
    """Its ``module:attribute``."""
    help: str
    """The first sentence of its help."""


class CommandGroup(NamedTuple):
    """A group of commands, such as ``ariane topic``."""

    help: str
    """What its help says of it."""
    commands: Mapping[str, LazyCommand | CommandGroup]
    """Its commands by name."""
    examples: Sequence[str]
    """Command lines that its help shows."""
