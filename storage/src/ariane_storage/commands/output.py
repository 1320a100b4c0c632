"""The shared part of ``ariane store``: arguments, formats, progress, errors in one line."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressDisplay
from rich.table import Table
from rich.text import Text

from ariane_record.control_characters import shown, shown_json
from ariane_storage.errors import StorageError
from ariane_storage.recovery.recovery import Progress, ProgressCallback

EXIT_DAMAGED: Final = 1
EXIT_FAILED: Final = 2

_C = TypeVar("_C", bound=Callable[..., Any])

folder_argument = click.argument(
    "folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)

format_option = click.option(
    "-o",
    "--output",
    "output_format",
    type=click.Choice(["table", "json", "jsonl", "yaml"]),
    default="table",
    show_default=True,
    help="Format of the output: a table, one JSON or YAML document, or one JSON object per line.",
)


def one_line_errors(command: _C) -> _C:
    """Turn errors of a store into one line on stderr and exit status 2."""

    @wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except BrokenPipeError:
            raise  # The reader of the pipe has read enough; click ends quietly.
        except StorageError as error:
            click.echo(f"ariane store: {shown(str(error))}", err=True)
            sys.exit(EXIT_FAILED)
        except OSError as error:
            click.echo(f"ariane store: {shown(_in_words(error))}", err=True)
            sys.exit(EXIT_FAILED)

    return wrapped  # type: ignore[return-value]


_ADVICE: Final = MappingProxyType(
    {
        errno.EACCES: "run this as the user that the broker runs as",
        errno.EPERM: "run this as the user that the broker runs as",
        errno.EROFS: "mount the file system for writing",
        errno.EISDIR: "the store needs a file there: move the folder away",
        errno.ENOTDIR: "the store needs a folder there: move the file away",
        errno.EIO: "the disk is failing: copy the folder to another disk, and work on the copy",
        errno.ENOSPC: "make room on the disk",
        errno.EDQUOT: "make room on the disk, or raise the quota",
        errno.EMFILE: "allow more open files: ulimit -n",
    }
)
"""The advice for an error of the system."""


def _in_words(error: OSError) -> str:
    """An error of the system as text: path, fault and advice, without its number."""
    if not error.strerror:
        return str(error) or type(error).__name__
    place = "" if error.filename is None else f"{error.filename}: "
    advice = _ADVICE.get(error.errno or 0, "")
    return f"{place}{error.strerror}{advice and f'; {advice}'}"


@contextmanager
def progress_on_stderr() -> Iterator[ProgressCallback]:
    """A progress bar on stderr if it is a terminal, else a line for each tenth of the work."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ProgressLines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with ProgressDisplay(
        *columns, TimeRemainingColumn(), console=console, transient=True
    ) as display:
        task = display.add_task("open the store", total=None)

        def show(progress: Progress) -> None:
            display.update(
                task,
                description=progress.step,
                completed=progress.done_bytes,
                total=progress.total_bytes,
            )

        yield show


@contextmanager
def progress_beside_output() -> Iterator[ProgressCallback]:
    """Progress on stderr for a command that prints all the time; none if both share a terminal."""
    if sys.stdout.isatty():
        yield _say_nothing
        return
    with progress_on_stderr() as progress:
        yield progress


def _say_nothing(_: Progress) -> None:
    """Do nothing: the rows on the screen show the progress."""


class _ProgressLines:
    """Progress as lines, for a log."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, progress: Progress) -> None:
        tenths = progress.done_bytes * 10 // max(1, progress.total_bytes)
        if tenths > self._tenths:
            self._tenths = tenths
            click.echo(f"{progress.step}: {tenths * 10} %", err=True)


def print_rows(
    rows: Iterable[Mapping[str, Any]], columns: Iterable[str], output_format: str
) -> int:
    """Print objects in a format; returns how many there were.

    Args:
        rows: The objects, which may be many: all but "jsonl" gather them.
        columns: Names that a table shows, in order.
        output_format: "table", "json", "jsonl" or "yaml".
    """
    count = 0
    if output_format == "jsonl":
        for row in rows:
            click.echo(shown_json(json.dumps(row, ensure_ascii=False)))
            count += 1
        return count
    if output_format in ("json", "yaml"):
        gathered = list(rows)
        _print_document(gathered, output_format)
        return len(gathered)
    names = list(columns)
    table = Table(*names, box=None, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
        count += 1
    _print_table(table)
    return count


def print_summary(summary: Mapping[str, Any], output_format: str) -> None:
    """Print one object: as two columns, or as JSON or YAML."""
    if output_format == "table":
        table = Table(box=None, show_header=False)
        for name, value in summary.items():
            table.add_row(name.replace("_", " "), _cell(value))
        _print_table(table)
    elif output_format == "jsonl":
        click.echo(shown_json(json.dumps(summary, ensure_ascii=False)))
    else:
        _print_document(summary, output_format)


def _print_document(value: Any, output_format: str) -> None:
    written = json.dumps(value, ensure_ascii=False, indent=2)
    safe = shown_json(written)
    if output_format == "json":
        click.echo(safe)
        return
    import yaml  # noqa: PLC0415 - loaded only if it is used.

    # If one character must be escaped, all that are not ASCII are.
    click.echo(
        yaml.safe_dump(json.loads(safe), allow_unicode=safe == written, sort_keys=False), nl=False
    )


def _print_table(table: Table) -> None:
    # Piped output is for tools: it is never wrapped to a terminal's width.
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=10_000)
    console.print(table, soft_wrap=not console.is_terminal)


def _cell(value: Any) -> Text:
    # As text: names and properties may have brackets in them, which are markup to a string.
    return Text(shown(_plain_cell(value)))


def _plain_cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{name}={held}" for name, held in value.items())
    return "" if value is None else str(value)
