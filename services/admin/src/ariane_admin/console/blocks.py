"""The blocks of a page: plain data that one template renders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import quote, urlencode

from markupsafe import Markup

CellKind: TypeAlias = Literal[
    "", "number", "number bad", "time", "good", "bad", "warn", "code", "body", "text", "quiet"
]


@dataclass(frozen=True, slots=True)
class Cell:
    """One value."""

    text: str
    """Its text."""
    href: str = ""
    """The target of its link."""
    kind: CellKind = ""
    """Its style."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells."""

    title: str
    """The title above it."""
    columns: Sequence[str]
    """Names of the columns."""
    rows: Sequence[Sequence[Cell]]
    """The rows, with one cell for each column."""
    empty: str = "Nothing here."
    """The text if there are no rows."""
    more: str = ""
    """Path of the next page."""
    more_text: str = "Next page"
    """Text of the link to it."""
    template: str = "table"


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and values of one thing."""

    title: str
    pairs: Sequence[tuple[str, Cell]]
    template: str = "fields"


@dataclass(frozen=True, slots=True)
class Tiles:
    """Some large figures."""

    tiles: Sequence[tuple[str, Cell]]
    template: str = "tiles"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a series."""

    title: str
    svg: Markup
    template: str = "chart"


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts side by side."""

    charts: Sequence[Chart]
    template: str = "charts"


@dataclass(frozen=True, slots=True)
class Notice:
    """One highlighted sentence."""

    text: str
    kind: Literal["good", "bad", "warn"] = "warn"
    template: str = "notice"


@dataclass(frozen=True, slots=True)
class Listing:
    """Preformatted text."""

    title: str
    text: str
    links: Sequence[Cell] = ()
    template: str = "listing"


@dataclass(frozen=True, slots=True)
class Input:
    """One field of a form."""

    name: str
    """Name in the request."""
    label: str = ""
    """Label on the page."""
    value: str = ""
    """Initial value."""
    kind: str = "text"
    """A type of HTML's input, or "select", "area", "hidden"."""
    options: Sequence[tuple[str, str]] = ()
    """Value and text of each option of a select."""
    required: bool = False
    """Whether it must be filled."""


@dataclass(frozen=True, slots=True)
class Form:
    """Fields that are sent together."""

    title: str
    """The title above it; a form that changes something is folded under it."""
    action: str
    """Path of the request."""
    inputs: Sequence[Input]
    """Its fields."""
    button: str
    """Text of the button."""
    method: Literal["get", "post"] = "post"
    """Either "get" for queries, "post" for changes."""
    danger: bool = False
    """Whether the change loses data."""
    back: Cell = field(default=Cell("No", "/"))
    """Path to cancel to, for a form without a title."""
    by_itself: bool = False
    """Whether a browser with scripts sends it at once."""
    is_open: bool = False
    """Whether it is not folded."""
    template: str = "form"


Block: TypeAlias = Table | Fields | Tiles | Charts | Notice | Listing | Form


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    title: str
    """Its heading."""
    blocks: Sequence[Block]
    """Its blocks, from the top."""
    section: str = ""
    """Its entry of the menu."""
    refresh_s: int = 0
    """Seconds after which it is reloaded; 0: never."""
    status: int = 200
    """HTTP status."""
    trail: Sequence[Cell] = field(default=())


def to(*parts: str, **query: str) -> str:
    """A path of the console; empty values are left out of the query."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def next_page(answer: object, *parts: str, **query: str) -> str:
    """The path of the next page of a list; empty on its last page.

    Args:
        answer: The answer with the present page.
        parts: As of ``to``.
        query: As of ``to``: the search of the present page.
    """
    token: str = getattr(answer, "next_page_token")  # noqa: B009 - as in ``moment``.
    return to(*parts, **query, token=token) if token else ""


def number(value: float, unit: str = "") -> Cell:
    """A number with separators."""
    text = f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.1f}"
    return Cell(f"{text}{unit}", kind="number")


def size(count: float) -> Cell:
    """A size in bytes, with a unit for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return Cell(
                f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}", "", "number"
            )
        count /= 1024
    return Cell(f"{count:,.1f} TiB", kind="number")


def span(seconds: float) -> Cell:
    """A time span, with a unit for people."""
    if seconds < 1:
        return Cell("under 1 s", kind="number")
    for limit, unit, length in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return Cell(f"{seconds / length:,.0f} {unit}", kind="number")
    return Cell(f"{seconds / 86_400:,.0f} d", kind="number")


def yes(*, is_so: bool, bad: bool = False) -> Cell:
    """Yes or no."""
    if is_so:
        return Cell("yes", kind="bad" if bad else "good")
    return Cell("no", kind="quiet" if bad else "bad")


def moment(thing: object, field: str) -> str:
    """An instant of a message, for people; empty if it is absent."""
    has = getattr(thing, "HasField")  # noqa: B009 - generated classes share no base with types
    if not has(field):
        return ""
    text: str = getattr(thing, field).ToDatetime().isoformat(" ", "seconds")
    return f"{text} UTC"
