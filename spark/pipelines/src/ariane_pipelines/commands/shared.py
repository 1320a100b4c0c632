"""The shared part of the commands of ``ariane spark``: cluster, Spark, times, errors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ariane_pipelines.error_texts import message_of
from ariane_record.control_characters import shown, shown_json
from ariane_sdk.errors import ArianeError
from ariane_spark.errors import ArianeSparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

_AGO: Final = re.compile(r"([0-9]{1,6})([smhd])")
_CONTEXT_KINDS: Final = ("SQL", "DataFrame")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

_C = TypeVar("_C", bound=Callable[..., Any])

name_servers_option = click.option(
    "--name-servers",
    default="127.0.0.1:9876",
    envvar="ARIANE_NAME_SERVERS",
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT,...",
    help="Addresses of the name servers.",
)

master_option = click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs, such as local[4] or spark://host:7077. By default in this"
    " process, on all cores.",
)

output_option = click.option(
    "-o",
    "--output",
    "data_format",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    callback=lambda _context, _option, value: "" if value == "table" else value,
    help="Format of the results.",
)

batch_option = click.option(
    "--batch",
    "batch_records_max",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Maximum number of messages in one micro-batch.",
)

group_option = click.option(
    "--group", metavar="NAME", help="Report the progress as the offsets of this consumer group."
)

_CELL_CHARACTERS_MAX: Final = 60


class Moment(click.ParamType[datetime]):
    """A time: ISO 8601 with a zone, or how long ago."""

    name = "TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read it."""
        if isinstance(value, datetime):
            return value
        ago = _AGO.fullmatch(value)
        moment: datetime | None
        try:
            if ago is not None:
                return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            moment = datetime.fromisoformat(value)
            moment.astimezone(UTC)
        except (ValueError, OverflowError):
            moment = None
        if moment is None or moment.tzinfo is None:
            self.fail(
                f"{value!r} is neither a time with a zone such as 2013-02-08T05:00:00Z nor a span"
                " such as 90s, 15m, 24h or 7d",
                param,
                ctx,
            )
        return moment


@contextmanager
def running_spark(
    name: str, master: str | None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session of Spark during a command.

    Args:
        name: The name that Spark shows.
        master: Where Spark runs; ``None``: on this machine, or as spark-submit sets.
        settings: Further settings of Spark.
    """
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - help needs no Spark.

    from ariane_spark.spark_session import session  # noqa: PLC0415 - the same.

    spark = session(f"ariane spark {name}", master=master, settings=settings)
    # An error in the user's SQL is one line; Spark would write the same on stderr.
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in _CONTEXT_KINDS]
    for logger in loggers:
        logger.disabled = True
    try:
        yield spark
    finally:
        for logger in loggers:
            logger.disabled = False
        spark.stop()


def one_line_errors(command: _C) -> _C:
    """Turn errors into one line on stderr and exit status 1."""

    @wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        from py4j.protocol import Py4JError  # noqa: PLC0415 - help needs no Spark.
        from pyspark.errors import PySparkException  # noqa: PLC0415 - the same.

        try:
            return command(*arguments, **options)
        except (ArianeSparkError, ArianeError, OSError) as error:
            click.echo(f"ariane spark: {shown(str(error))}", err=True)
        except (PySparkException, Py4JError) as error:
            click.echo(f"ariane spark: {shown(message_of(error))}", err=True)
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
        sys.exit(EXIT_FAILED)

    return wrapped  # type: ignore[return-value]


def write_data(result: Mapping[str, object], data_format: str) -> None:
    """Write a result for programs.

    Args:
        result: The result.
        data_format: "json" or "yaml".
    """
    written = json.dumps(result, ensure_ascii=False, default=str)
    safe = shown_json(written)
    if data_format == "json":
        click.echo(safe)
        return
    import yaml  # noqa: PLC0415 - help needs none.

    # If one character must be escaped, all non-ASCII characters are.
    click.echo(
        yaml.safe_dump(json.loads(safe), allow_unicode=safe == written, sort_keys=False), nl=False
    )


def text_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as text, with an empty line after it; numbers are aligned to the right.

    Args:
        head: The names of the columns.
        rows: The cells; long texts are cut.
    """
    cells = [head, *(tuple(map(_cell, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [all(isinstance(row[at], int) for row in rows) for at in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in (cells[0], ["-" * width for width in widths], *cells[1:])
    ]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    printable = "".join(sign if sign.isprintable() else " " for sign in text)
    if len(printable) <= _CELL_CHARACTERS_MAX:
        return printable
    return f"{printable[: _CELL_CHARACTERS_MAX - 1]}…"
