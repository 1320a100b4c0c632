"""The output of commands: a table for people, JSON or YAML for programs (``-o table|json|yaml``).

One rule for every command: results go to standard output, everything else to standard error. With
``-o json`` a list is one array, a thing one object, and a stream (``ariane consume``) one object a
line; with ``-o yaml`` the same are documents, of a stream one after another. Names of fields do not
change from version to version.

Much of the output was written by others: tags, keys, bodies, names. Control characters that a
terminal would obey are written as escapes, in JSON as those of JSON.

Modules that only results need are imported with the first result, to keep help and completion fast.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import click

from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.standard_streams import can_write_everything

Row = Mapping[str, object]

Part = tuple[Sequence[str], Sequence[Row]]
"""A list that belongs to a thing: the columns of its table, and its rows."""

_YAML_COLUMNS = 1000
"""Texts are folded only beyond this width: one line is easier to copy than three."""

NO_PARTS: Mapping[str, Part] = MappingProxyType({})
_Entry = TypeVar("_Entry")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class OutputFormat(enum.Enum):
    """Format of the results."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Output:
    """Writes the results of one command."""

    def __init__(self, output_format: OutputFormat) -> None:
        self._format = output_format

    @property
    def for_programs(self) -> bool:
        """Whether the output is for programs."""
        return self._format is not OutputFormat.TABLE

    def rows(self, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Write a list.

        Args:
            columns: The fields that a table shows, in order; numbers are aligned right.
            rows: One mapping for each thing. JSON shows all fields.
        """
        listed = list(rows)
        if self.for_programs:
            self._write_data([dict(row) for row in listed])
            return
        from ariane_admin.terminal.tables import print_rows  # noqa: PLC0415 - see the module

        print_rows(columns, listed)

    def record(self, row: Row, parts: Mapping[str, Part] = NO_PARTS) -> None:
        """Write one thing, one line for each field, and the lists that belong to it.

        Args:
            row: The fields.
            parts: Lists by name. They are fields of the object in JSON, and tables below it for
                people; tables without rows are left out.
        """
        if self.for_programs:
            lists = {name: [dict(each) for each in rows] for name, (_, rows) in parts.items()}
            self._write_data({**row, **lists})
            return
        from ariane_admin.terminal.tables import print_fields  # noqa: PLC0415 - see the module

        print_fields(row)
        for name, (columns, rows) in parts.items():
            if rows:
                click.echo(f"\n{name.replace('_', ' ').capitalize()}:")
                self.rows(columns, rows)

    def done(self, sentence: str, row: Row) -> None:
        """Write what was done: a sentence for people, a row for programs."""
        if self.for_programs:
            self._write_data(dict(row))
            return
        from ariane_record.control_characters import shown_lines  # noqa: PLC0415 - see the module

        click.echo(shown_lines(sentence))

    def line(self, row: Row) -> None:
        """Write one element of a stream: a line of JSON, or a document of YAML."""
        if self._format is OutputFormat.YAML:
            click.echo("---")
        self._write_data(dict(row))

    def _write_data(self, value: object) -> None:
        # Escapes if the encoding of standard output lacks characters.
        from ariane_record.control_characters import shown_json  # noqa: PLC0415 - see the module

        escaped = not can_write_everything(sys.stdout.encoding)
        written = json.dumps(value, ensure_ascii=escaped, default=str)
        shown = shown_json(written)
        if self._format is OutputFormat.JSON:
            click.echo(shown)
            return
        import yaml  # noqa: PLC0415 - see the module

        # If one character must be escaped, all non-ASCII ones are.
        click.echo(
            yaml.safe_dump(
                json.loads(shown),
                allow_unicode=not escaped and shown == written,
                sort_keys=False,
                width=_YAML_COLUMNS,
            ),
            nl=False,
        )


def first_of(entries: Sequence[_Entry], count_max: int) -> Sequence[_Entry]:
    """The first entries of a list; a warning tells that there are more."""
    if len(entries) > count_max:
        say_warning(f"there are more than these {count_max:,}: raise --count to see more")
    return entries[:count_max]


def output_option(command: _Command) -> _Command:
    """Give a command the option ``-o`` and the argument `output` (an `Output`)."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice([each.value for each in OutputFormat]),
        default=OutputFormat.TABLE.value,
        show_default=True,
        callback=lambda _context, _option, value: Output(OutputFormat(value)),
        help="Format of the results.",
    )
    return option(command)
