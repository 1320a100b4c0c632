"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeVar

PAGE_SIZE_MAX: Final = 1000
"""Entries that every service gives in one page."""

Entry = TypeVar("Entry")


class _PagedRequest(Protocol):
    page_size: int
    page_token: str


async def all_pages(
    ask: Callable[[Any], Awaitable[Any]],
    request: _PagedRequest,
    entries: Callable[[Any], Iterable[Entry]],
) -> list[Entry]:
    """All entries of a list.

    Args:
        ask: Makes the call for one page.
        request: Its request; the page fields are set here.
        entries: Takes the entries out of an answer.
    """
    found: list[Entry] = []
    request.page_size = PAGE_SIZE_MAX
    while True:
        page = await ask(request)
        found += entries(page)
        request.page_token = page.next_page_token
        if not request.page_token:
            return found
