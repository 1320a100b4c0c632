"""The few pieces of Markdown that generated pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

COLUMNS_MAX: Final = 100
"""Width of running text, as in all our papers; tables go their own way."""


def made_from(source: str) -> str:
    """The comment that keeps people from editing a page by hand."""
    return f"<!-- Made by `make docs` from {source}; change it there. -->"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a cell is Markdown, and may not hold line breaks."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def code(text: str) -> str:
    """Text as it is typed."""
    return f"`{text}`"


def block(language: str, text: str) -> str:
    """Lines as they are typed."""
    return f"```{language}\n{text.rstrip()}\n```"


def page(*parts: str) -> str:
    """Parts of a page, an empty line between them."""
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
