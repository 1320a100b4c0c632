"""Options that commands share, as bundles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import click

from ariane_admin.asking.connection import name_servers_option
from ariane_admin.terminal.output import output_option

_Command = TypeVar("_Command", bound=Callable[..., Any])


Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Gives a command an option, or several."""


def with_options(*options: Option) -> Option:
    """Several options as one, in the order in which help lists them."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return give


def question_options(command: _Command) -> _Command:
    """Give a command what a question needs: ``--name-servers`` and ``--output``."""
    return name_servers_option(output_option(command))


def count_option(default: int) -> Callable[[_Command], _Command]:
    """Give a list the option ``--count`` and the argument `count`."""
    return click.option(
        "--count",
        type=click.IntRange(1),
        default=default,
        show_default=True,
        help="Maximum number of rows to list.",
    )
