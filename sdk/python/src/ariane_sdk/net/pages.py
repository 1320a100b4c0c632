"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

PAGE_SIZE_MAX: Final = 1000
"""Entries that every service gives in one page."""

Entry = TypeVar("Entry")


async def collect_pages(
    fetch: Callable[[str], Awaitable[tuple[Sequence[Entry], str]]],
) -> list[Entry]:
    """All entries of a list.

    Args:
        fetch: Gives the page of a token, and the token of the next page, empty at the end.
    """
    entries: list[Entry] = []
    token = ""
    while True:
        page, token = await fetch(token)
        entries += page
        if not token:
            return entries
