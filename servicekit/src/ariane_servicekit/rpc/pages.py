"""Pages of lists. A token names the last entry of its page, so lists may change between pages."""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError, field_invalid
from ariane_servicekit.running.turns import in_turns

PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 1000

PageKey: TypeAlias = tuple[str | int, ...]
"""The sort key of a list's entries; all have the same types at the same places."""

EntryT = TypeVar("EntryT")


@dataclass(frozen=True, slots=True)
class Page(Generic[EntryT]):
    """Some entries of a list."""

    entries: Sequence[EntryT]
    next_page_token: str
    """The token of the next page; empty at the end."""


def take_page(
    entries: Sequence[EntryT],
    key: Callable[[EntryT], PageKey],
    *,
    page_size: int,
    page_token: str,
    scope: str,
) -> Page[EntryT]:
    """Return the page that a request asks for.

    Args:
        entries: The whole list, sorted by ``key``, without two equal keys.
        key: The sort key.
        page_size: From the request: 1 to 1000, 0 for 100.
        page_token: From the request: empty for the first page.
        scope: Names the method and its filter, so that a token of another list is refused.

    Raises:
        ServiceError: FIELD_INVALID for the size, PAGE_TOKEN_INVALID for the token.
    """
    if not 0 <= page_size <= PAGE_SIZE_MAX:
        raise field_invalid("page_size", f"must be 0 to {PAGE_SIZE_MAX}", page_size)
    begin = 0
    if page_token:
        begin = _position_after(entries, key, _read_token(page_token, scope), page_token)
    end = begin + (page_size or PAGE_SIZE_DEFAULT)
    page = entries[begin:end]
    return Page(page, _write_token(key(page[-1]), scope) if end < len(entries) else "")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A requested page, for lists that a database sorts and limits.

    Query the database for ``limit + 1`` entries behind ``last``, and hand them to ``page_of``.
    """

    limit: int
    """Entries of the page."""
    last: PageKey | None
    """The last key of the page before. None: from the beginning."""
    scope: str

    @classmethod
    def of(
        cls, *, page_size: int, page_token: str, scope: str, kinds: Sequence[type]
    ) -> PageRequest:
        """Read a request.

        Args:
            page_size: From the request: 1 to 1000, 0 for 100.
            page_token: From the request: empty for the first page.
            scope: Names the method and its filter, so that a token of another list is refused.
            kinds: The types of the key's parts: ``str`` and ``int``.

        Raises:
            ServiceError: FIELD_INVALID for the size, PAGE_TOKEN_INVALID for the token.
        """
        if not 0 <= page_size <= PAGE_SIZE_MAX:
            raise field_invalid("page_size", f"must be 0 to {PAGE_SIZE_MAX}", page_size)
        last = _read_token(page_token, scope) if page_token else None
        if last is not None and list(map(type, last)) != list(kinds):
            raise token_invalid(page_token)
        return cls(page_size or PAGE_SIZE_DEFAULT, last, scope)

    async def page_in_turns(
        self, entries: Iterable[EntryT | None], key: Callable[[EntryT], PageKey]
    ) -> Page[EntryT]:
        """Return the page from all entries, in any order, examined in short turns of the loop.

        Args:
            entries: The entries; None for something that was examined and is none (``turns``).
            key: The sort key.
        """
        first = self._first(entries, key)
        return self.page_of(await in_turns(first), key)

    def _first(
        self, entries: Iterable[EntryT | None], key: Callable[[EntryT], PageKey]
    ) -> Iterator[EntryT | None]:
        """The first entries behind ``last``, one more than ``limit``; None for each examined."""
        first: list[EntryT] = []
        for entry in entries:
            yield None
            if entry is not None and (self.last is None or key(entry) > self.last):
                first.append(entry)
            if len(first) > 2 * self.limit:
                first = sorted(first, key=key)[: self.limit + 1]
        yield from sorted(first, key=key)[: self.limit + 1]

    def page_of(self, found: Sequence[EntryT], key: Callable[[EntryT], PageKey]) -> Page[EntryT]:
        """Return the page from the entries found; one more than ``limit`` means a further page."""
        page = found[: self.limit]
        more = len(found) > self.limit
        return Page(page, self.token_behind(key(page[-1])) if more else "")

    def token_behind(self, last: PageKey) -> str:
        """The token of a page that begins behind a key, whether an entry has that key or not."""
        return _write_token(last, self.scope)


def _position_after(
    entries: Sequence[EntryT], key: Callable[[EntryT], PageKey], last: PageKey, token: str
) -> int:
    if entries and list(map(type, key(entries[0]))) != list(map(type, last)):
        raise token_invalid(token)
    return bisect_right(entries, last, key=key)


def _write_token(last: PageKey, scope: str) -> str:
    text = json.dumps([scope, *last], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode()


def _read_token(token: str, scope: str) -> PageKey:
    try:
        found, *last = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        raise token_invalid(token) from None
    if found != scope or not all(type(part) in {str, int} for part in last):
        raise token_invalid(token)
    return tuple(last)


def token_invalid(token: str) -> ServiceError:
    """The error for a token that is none of a list, or none of this caller."""
    return ServiceError(
        ErrorReason.ERROR_REASON_PAGE_TOKEN_INVALID,
        "page_token was not made by this method with this filter",
        {"page_token": token[:100]},
    )
