"""Lists of a broker, read to their end page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    PAGE_SIZE,
    NamedBroker,
    answer_to_question,
    broker_peer,
)

_EntryT = TypeVar("_EntryT")


class _Pages(Protocol):
    page_size: int
    page_token: str


async def all_pages(
    broker: NamedBroker,
    ask: Callable[..., Awaitable[Any]],
    request: _Pages,
    entries: Callable[[Any], Sequence[_EntryT]],
) -> list[_EntryT]:
    """All entries of a list of a broker.

    Args:
        broker: The broker.
        ask: The stub's method.
        request: The request; its page fields are set here.
        entries: Takes the entries out of an answer.

    Raises:
        CallError: The broker refused or did not answer.
    """
    found: list[_EntryT] = []
    request.page_size = PAGE_SIZE
    while True:
        page = await answer_to_question(ask(request, timeout=CALL_SECONDS_MAX), broker_peer(broker))
        found += entries(page)
        request.page_token = page.next_page_token
        if not request.page_token:
            return found
