"""What the command line itself refuses.

::

    click.ClickException
    +-- CommandFailed       one line on standard error and an exit status
"""

from __future__ import annotations

from typing import IO, Any

import click

from ariane_admin.terminal.exits import ExitStatus

_CHARACTERS_MAX = 1000
"""Of a longer line, begin and end are shown."""


class CommandFailed(click.ClickException):
    """The command cannot do what was asked; the text is one line for people.

    Plugins raise it too: it is the way to end a command without a trace.

    Args:
        message: The line.
        status: How the command ends.
        reason: The word in brackets, where an error of the cluster has one; else the status's name.
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
    """Write one line that tells what went wrong, to standard error unless `file` is given."""
    # With the package of records comes numpy: only who has an error to say waits for it.
    from ariane_record.control_characters import shown  # noqa: PLC0415

    line = shown(" ".join(message.split()))
    if len(line) > _CHARACTERS_MAX:
        # What was said wrongly is repeated, and may be of any length.
        line = f"{line[: _CHARACTERS_MAX // 2]} ... {line[-_CHARACTERS_MAX // 2 :]}"
    click.echo(f"ariane: {line}", file=file, err=file is None)
