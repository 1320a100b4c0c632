"""Progress of long work: one line on a terminal's standard error, removed when the work is done.

If standard error is not a terminal, it is read later or by a pipe: there a line is written now and
then, the first after some seconds, so that quick work writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ariane_admin.errors import say_error

LINE_S_MIN: Final = 5.0
LINE_S_MAX: Final = 60.0
"""Without a terminal: seconds to the first line, doubled for each next one up to the maximum."""


@contextmanager
def progress(now_s: Callable[[], float] = time.monotonic) -> Iterator[Callable[[str], None]]:
    """Show the progress of work for the length of a block.

    Args:
        now_s: A clock, in seconds.

    Yields:
        A function that updates the line.
    """
    from rich.console import Console  # noqa: PLC0415 - not before there is work that takes long

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(now_s).show
        return
    with console.status("") as status:
        yield status.update


class _Lines:
    """Writes a line now and then."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._pause_s = LINE_S_MIN
        self._next_s = now_s() + self._pause_s

    def show(self, line: str) -> None:
        """Write a line if it is time for one."""
        now_s = self._now_s()
        if now_s < self._next_s:
            return
        self._pause_s = min(2 * self._pause_s, LINE_S_MAX)
        self._next_s = now_s + self._pause_s
        say_error(line)
