"""Tables for people. All cells are plain text: a body may contain brackets or escapes.

Ids, addresses and names have to be copied whole. So rows are folded between words only; and if a
terminal is too narrow for the longest word of each column, the fields of a row are written below
one another, one line each.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ariane_record.control_characters import shown

_WIDTH_WITHOUT_TERMINAL: Final = 1000
"""Columns of a table in a file or a pipe: wide enough that nothing is cut."""


def print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Write a list as a table, or as fields below one another if rows are too wide."""
    console = _console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        number = rows and all(isinstance(row[column], int | float) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if number else "left")
    for row in rows:
        table.add_row(*(_text(row[column]) for column in columns))
    unbounded = console.options.update(max_width=_WIDTH_WITHOUT_TERMINAL)
    minimum = console.measure(table, options=unbounded).minimum
    if minimum > console.width:
        for row in rows:
            print_fields({column: row[column] for column in columns})
            console.print()
        return
    _share_width(table, console, console.width - minimum)
    console.print(table)


def _share_width(table: Table, console: Console, spare: int) -> None:
    """Give each column its longest word, and spare width to columns that need little more.

    Rich takes missing width from the widest column, and cuts its words although others could be
    folded between words.
    """
    unbounded = console.options.update(max_width=_WIDTH_WITHOUT_TERMINAL)
    needs = []
    for column in table.columns:
        cells = (
            console.measure(cell, options=unbounded) for cell in (column.header, *column.cells)
        )
        least, most = zip(*cells, strict=True)
        needs.append((max(most) - max(least), max(least), column))
    needs.sort(key=lambda need: need[0])
    for done, (wanted, least, column) in enumerate(needs):
        grant = min(wanted, spare // (len(needs) - done))
        column.width = least + grant
        spare -= grant


def print_fields(row: Mapping[str, object]) -> None:
    """Write one thing, one line for each field, which only the terminal folds."""
    console = _console()
    width = max(map(len, row), default=0)
    for name, value in row.items():
        line = Text(f"{name.replace('_', ' '):{width}}  ", "bold")
        console.print(line.append(_text(value)), soft_wrap=True)


def _console() -> Console:
    # Made at each use: the streams may have been replaced since the import.
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=_WIDTH_WITHOUT_TERMINAL)


def _text(value: object) -> Text:
    return Text(shown(_cell(value)))


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(_cell(each) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_cell(each)}" for name, each in value.items())
    return "" if value is None else str(value)
