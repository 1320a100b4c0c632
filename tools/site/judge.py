"""What Sphinx does not judge of a site that it has built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_FETCHED: Final = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements for which a browser fetches something, and the attribute that says what."""


@dataclass
class _Page(HTMLParser):
    links: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if not value:
                continue
            if name == "id":
                self.ids.add(value)
            elif _FETCHED.get(tag) == name:
                self.fetched.add(value)
            elif (tag, name) == ("a", "href"):
                self.links.add(value)


def complaints(site: Path, names: Iterable[str]) -> list[str]:
    """Links that lead nowhere, things from other places, and names without a place or a text.

    Args:
        site: The folder of a site.
        names: Full names; each must be an element of a page, with this as its id.
    """
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for link in sorted(page.links | page.fetched):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.fetched and parts.scheme != "data":
                    found.append(f"{where} fetches {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target in pages and (not parts.fragment or link in page.fetched):
                continue
            if target in pages:
                if unquote(parts.fragment) not in pages[target].ids:
                    found.append(f"{where} links to {link}: there is no such place")
            elif not target.is_file():
                found.append(f"{where} links to {link}: there is no such file")
    found += [
        f"{path.relative_to(site)} fetches something from another place"
        for path in sorted(site.rglob("*.css"))
        if "url(http" in path.read_text() or "@import" in path.read_text()
    ]
    places = set().union(*(page.ids for page in pages.values())) if pages else set()
    return found + [f"{name} stands on no page" for name in names if name not in places]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page
