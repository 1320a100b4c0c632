"""How far a long work is: one line on a terminal's standard error, gone when the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show one changing line for the length of a block; nothing where nobody sits at a terminal.

    Yields:
        What tells the line anew.
    """
    from rich.console import Console  # noqa: PLC0415 - not before there is work that takes long

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _line: None
        return
    with console.status("") as status:
        yield status.update
