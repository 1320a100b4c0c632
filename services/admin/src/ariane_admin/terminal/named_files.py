"""Files that a command line names: one that cannot be read or written is wrong usage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

import click

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus


class FileToWrite(click.Path):
    """A file that is written when the work is done: where it cannot be, the work is not begun."""

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=allow_dash, path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path:
        """Read the option or argument."""
        if not os.fspath(value):
            self.fail("it is empty", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self.allow_dash and str(path) == "-":
            return path
        folder = path.parent
        if not folder.is_dir():
            self.fail(f"{path}: there is no folder {folder}", param, ctx)
        if not path.exists() and not os.access(folder, os.W_OK):
            self.fail(f"{path}: folder {folder} is not writable", param, ctx)
        return path


def text_of(file: TextIO) -> str:
    """All of a file.

    Raises:
        CommandFailed: It is not text.
    """
    try:
        return file.read()
    except UnicodeDecodeError as error:
        raise CommandFailed(
            f"{file.name} is no text in UTF-8: see byte {error.start:,}", ExitStatus.USAGE
        ) from None
