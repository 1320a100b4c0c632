"""The command line of the demo: orders in, tables and an exit status out."""

from __future__ import annotations

import argparse
import asyncio
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ariane_sdk.errors import ArianeError
from ariane_servicekit.errors import ProcessFailed
from flight_demo.checks import require, totals_table
from flight_demo.errors import DemoError
from flight_demo.run import RunOrders, run
from flight_demo.selection import DAYS_OF_THE_YEAR, Selection
from flight_demo.stages import Stages, display_for
from flight_demo.work.publish import Sabotage

_DONE, _FAILED, _INTERRUPTED = 0, 1, 130
_WIDTH_WITHOUT_TERMINAL = 110
_ERROR_CHARACTERS_MAX = 500
"""Of a longer error, which has the end of a log in it, begin and end are shown."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status: 0 only if every total holds."""
    orders = _parse(arguments)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH_WITHOUT_TERMINAL)
    try:
        with tempfile.TemporaryDirectory(
            prefix="ariane-demo-", ignore_cleanup_errors=True
        ) as folder:
            asyncio.run(_play(orders, console, Path(folder)))
    except Exception as error:
        if orders.trace:
            raise
        expected = isinstance(error, DemoError | ProcessFailed | ArianeError | OSError)
        text = str(error) if expected else f"{type(error).__name__}: {error} (--trace shows where)"
        line = _one_line(text)
        console.print("[bold red]The demo failed:[/]", escape(line), soft_wrap=True)
        return _FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("The demo was interrupted; everything that it started is gone.")
        return _INTERRUPTED
    return _DONE


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    half = _ERROR_CHARACTERS_MAX // 2
    return line if len(line) <= 2 * half else f"{line[:half]} ... {line[-half:]}"


async def _play(orders: RunOrders, console: Console, folder: Path) -> None:
    task = asyncio.current_task()
    if task is not None:
        # Ctrl-C does so by itself.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    stages = Stages(display_for(console))
    checks = await run(orders, stages, folder)
    console.print()
    console.print(stages.table())
    console.print()
    console.print(totals_table(checks))
    console.print(f"\nThe delays, drawn: {orders.picture_path}\n", soft_wrap=True)
    require(checks)
    seconds = sum(outcome.seconds for outcome in stages.outcomes)
    console.print(f"[bold green]All {len(checks)} totals hold[/], after {seconds:.0f} s.")


def _parse(arguments: Sequence[str] | None) -> RunOrders:
    parser = argparse.ArgumentParser(
        prog="demo",
        description="Real flights of 2013 through a whole cluster, and every total checked.",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--months", type=_within(1, 12), help="only the first months of the year")
    size.add_argument("--days", type=_within(1, DAYS_OF_THE_YEAR), help="only the first days")
    size.add_argument(
        "--events", type=_within(1, 10_000_000), help="only the flights of about the first events"
    )
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("out/flights-delays.png"),
        help="where the picture goes (default: %(default)s)",
    )
    parser.add_argument(
        "--sabotage",
        type=Sabotage,
        choices=tuple(Sabotage),
        metavar="{" + ",".join(each.value for each in Sabotage) + "}",
        help="make a fault on purpose, to see the totals notice it",
    )
    parser.add_argument(
        "--kill-primaries",
        action="store_true",
        help="each broker has a replica, and its primary is killed in the middle: of one while"
        " events are published, of the other while they are consumed",
    )
    parser.add_argument(
        "--trace", action="store_true", help="show the trace of an error instead of one line"
    )
    given = parser.parse_args(arguments)
    if given.months is not None:
        selection = Selection.of_months(given.months)
    elif given.days is not None:
        selection = Selection(days=given.days)
    else:
        selection = Selection(events_min=given.events)
    return RunOrders(
        selection, given.picture, given.sabotage, given.kill_primaries, trace=given.trace
    )


class _within:  # noqa: N801 - reads as the type of an argument
    """An argument type: a whole number between two others."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def __call__(self, text: str) -> int:
        number = int(text)
        if not self._least <= number <= self._most:
            raise argparse.ArgumentTypeError(f"must be {self._least} to {self._most}")
        return number
