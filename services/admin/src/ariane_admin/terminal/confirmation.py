"""Questions before a command makes a change that cannot be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus

_Command = TypeVar("_Command", bound=Callable[..., Any])


def yes_option(command: _Command) -> _Command:
    """Give a command the option ``--yes`` and the argument `yes`."""
    return click.option("--yes", "-y", is_flag=True, help="Skip the question for confirmation.")(
        command
    )


def dry_run_option(command: _Command) -> _Command:
    """Give a command the option ``--dry-run`` and the argument `dry_run`."""
    return click.option(
        "--dry-run", is_flag=True, help="Show what would be done, and change nothing."
    )(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user, unless `yes` was given.

    Raises:
        CommandFailed: The user said no (REFUSED), or there is no terminal to ask on (USAGE).
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{question} Give --yes to do it without this question.", ExitStatus.USAGE
        )
    from ariane_record.control_characters import shown  # noqa: PLC0415 - only who is asked waits

    # On standard error: standard output is for results.
    if not click.confirm(shown(question), err=True):
        raise CommandFailed("nothing was done", ExitStatus.REFUSED)
