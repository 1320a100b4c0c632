"""The errors of the command line itself.

::

    click.ClickException
    +-- CommandFailed       one line on standard error and an exit status
"""

from __future__ import annotations

from typing import IO, Any

import click

from ariane_admin.terminal.exits import ExitStatus

_CHARACTERS_MAX = 1000
"""The longest line; of longer ones, begin and end are shown."""


class CommandFailed(click.ClickException):
    """The command cannot be carried out; the text is one line for people.

    Plugins raise it too: it ends a command without a trace.

    Args:
        message: The line.
        status: The exit status of the command.
        reason: The word in brackets, from an error of the cluster; by default the status's name.
    """

    def __init__(
        self, message: str, status: ExitStatus = ExitStatus.FAILED, *, reason: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason or status.name

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the line, with the reason in brackets."""
        say_error(f"{self.format_message()} [{self.reason}]", file)


def say_error(message: str, file: IO[Any] | None = None) -> None:
    """Write one line with an error, to standard error unless `file` is given."""
    # The package of records loads numpy: only errors should wait for it.
    from ariane_record.control_characters import shown  # noqa: PLC0415

    line = shown(" ".join(message.split()))
    if len(line) > _CHARACTERS_MAX:
        # The wrong text is repeated, and may have any length.
        line = f"{line[: _CHARACTERS_MAX // 2]} ... {line[-_CHARACTERS_MAX // 2 :]}"
    click.echo(f"ariane: {line}", file=file, err=file is None)
