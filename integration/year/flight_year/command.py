"""The command line: which part of the year; the exit status says whether all totals hold."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flight_demo.checks import require, totals_table
from flight_demo.errors import DemoError
from flight_demo.selection import DAYS_OF_THE_YEAR, Selection
from flight_demo.stages import Stages, display_for
from pyspark.errors import PySparkException
from rich.console import Console
from rich.markup import escape

from ariane_sdk.errors import ArianeError
from ariane_servicekit.errors import ProcessFailed
from flight_year.run import run

_DONE, _FAILED = 0, 1
_ERROR_CHARACTERS_MAX = 500
_WIDTH_WITHOUT_TERMINAL = 110
DAYS_MIN = 20
"""The watermark takes 14 days: less would leave nothing to tell of rotations."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the year and return its exit status: 0 only if every total holds."""
    parser = argparse.ArgumentParser(
        prog="year", description="What Spark makes of the flights of 2013, every total checked."
    )
    parser.add_argument(
        "--days",
        type=int,
        choices=range(DAYS_MIN, DAYS_OF_THE_YEAR + 1),
        metavar=f"{DAYS_MIN}-{DAYS_OF_THE_YEAR}",
        default=DAYS_OF_THE_YEAR,
        help="only the first days of the year (default: %(default)s)",
    )
    selection = Selection(days=parser.parse_args(arguments).days)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH_WITHOUT_TERMINAL)
    stages = Stages(display_for(console))
    try:
        with tempfile.TemporaryDirectory(
            prefix="ariane-year-", ignore_cleanup_errors=True
        ) as folder:
            checks = run(selection, stages, Path(folder))
        for table in (stages.table(), totals_table(checks)):
            console.print()
            console.print(table)
        require(checks)
    except (DemoError, ProcessFailed, ArianeError, OSError, PySparkException) as error:
        line = " ".join(str(error).split())[:_ERROR_CHARACTERS_MAX]
        console.print("[bold red]The year failed:[/]", escape(line), soft_wrap=True)
        return _FAILED
    seconds = sum(outcome.seconds for outcome in stages.outcomes)
    console.print(f"\n[bold green]All {len(checks)} totals hold[/], after {seconds:.0f} s.")
    return _DONE
