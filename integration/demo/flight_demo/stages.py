"""The stages of a run: shown while they run, remembered for the table at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

SECONDS_BETWEEN_LINES = 3.0
"""How often a running stage writes a line where there is no terminal."""


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """What a stage did."""

    name: str
    count: int
    unit: str
    seconds: float

    rated: bool = True
    """Whether things a second mean anything."""

    @property
    def rate(self) -> str:
        """Things a second, for people; empty where it means nothing."""
        return f"{self.count / self.seconds:,.0f}/s" if self.rated and self.seconds > 0 else ""

    def __str__(self) -> str:
        line = f"{self.name}: {self.count:,} {self.unit} in {self.seconds:.1f} s"
        return f"{line} ({self.rate})" if self.rate else line


class Display(Protocol):
    """Where a running stage shows itself."""

    def begin(self, name: str, total: int | None, unit: str, *, rated: bool) -> None:
        """A stage begins."""

    def advance(self, count: int) -> None:
        """The stage has come to `count`."""

    def note(self, text: str) -> None:
        """The stage cannot count yet, but says where it stands."""

    def end(self, outcome: StageOutcome) -> None:
        """The stage is done."""

    def abandon(self) -> None:
        """The stage failed or was interrupted."""


class Stage:
    """A running stage."""

    def __init__(self, display: Display, clock: Callable[[], float]) -> None:
        self._display = display
        self._clock = clock
        self._began = clock()
        self._seconds: float | None = None
        self._at: list[tuple[int, Callable[[], None]]] = []
        self.count = 0

    def reach(self, count: int) -> None:
        """Tell how far the stage has come."""
        self.count = count
        self._display.advance(count)
        while self._at and self._at[0][0] <= count:
            self._at.pop(0)[1]()

    def at(self, count: int, act: Callable[[], None]) -> None:
        """Have something done once the stage has come to `count`, above those of earlier calls."""
        self._at.append((count, act))

    def note(self, text: str) -> None:
        """Tell where the stage stands when it cannot count."""
        self._display.note(text)

    def finish(self) -> None:
        """Stop the clock: what follows is no longer the work that the rate is about."""
        self._seconds = self._clock() - self._began

    @property
    def seconds(self) -> float:
        """How long the stage took or takes."""
        return self._clock() - self._began if self._seconds is None else self._seconds


class Stages:
    """All stages of a run, in order."""

    def __init__(self, display: Display, clock: Callable[[], float] = time.perf_counter) -> None:
        self._display = display
        self._clock = clock
        self.outcomes: list[StageOutcome] = []

    @contextmanager
    def stage(
        self, name: str, *, total: int | None = None, unit: str, rated: bool = True
    ) -> Iterator[Stage]:
        """Show a stage while the block runs, and remember it when the block ends well.

        Args:
            name: What the stage does.
            total: How far it will come, if that is known.
            unit: What is counted.
            rated: Whether things a second mean anything.
        """
        self._display.begin(name, total, unit, rated=rated)
        stage = Stage(self._display, self._clock)
        try:
            yield stage
        except BaseException:
            self._display.abandon()
            raise
        outcome = StageOutcome(name, stage.count, unit, stage.seconds, rated)
        self._display.end(outcome)
        self.outcomes.append(outcome)

    def table(self) -> Table:
        """Return the stages with counts and rates."""
        table = Table(title="Stages", title_justify="left", title_style="bold")
        table.add_column("stage")
        table.add_column("count", justify="right")
        table.add_column("of")
        table.add_column("seconds", justify="right")
        table.add_column("rate", justify="right")
        for outcome in self.outcomes:
            table.add_row(
                outcome.name,
                f"{outcome.count:,}",
                outcome.unit,
                f"{outcome.seconds:.1f}",
                outcome.rate,
            )
        return table


class _RateColumn(ProgressColumn):
    """Things a second, for the running stage."""

    def render(self, task: Task) -> Text:
        """Draw the rate of `task`."""
        seconds = task.elapsed or 0.0
        if not task.completed or seconds <= 0:
            return Text("")
        return Text(f"{task.completed / seconds:,.0f}/s", style="cyan")


class TerminalDisplay:
    """A bar that moves."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._name = ""

    def begin(self, name: str, total: int | None, unit: str, *, rated: bool) -> None:
        """Show the bar."""
        self._name = name
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn() if total is not None else TextColumn(""),
            TextColumn(unit if total is not None else ""),
            _RateColumn() if rated else TextColumn(""),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._progress.start()
        self._progress.add_task(name, total=total)

    def advance(self, count: int) -> None:
        """Move the bar."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=count)

    def note(self, text: str) -> None:
        """Write the text beside the bar."""
        if self._progress is not None:
            self._progress.update(
                self._progress.task_ids[0], description=f"{self._name} [dim]({text})[/]"
            )

    def end(self, outcome: StageOutcome) -> None:
        """Replace the bar by a line."""
        self.abandon()
        self._console.print(f"[green]✓[/] {outcome}")

    def abandon(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class LineDisplay:
    """A line every few seconds, for logs."""

    def __init__(
        self,
        console: Console,
        *,
        seconds_between_lines: float = SECONDS_BETWEEN_LINES,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._console = console
        self._seconds_between_lines = seconds_between_lines
        self._clock = clock
        self._name, self._unit = "", ""
        self._total: int | None = None
        self._rated = True
        self._began = self._next_line = 0.0

    def begin(self, name: str, total: int | None, unit: str, *, rated: bool) -> None:
        """Remember what the lines are about."""
        self._name, self._total, self._unit, self._rated = name, total, unit, rated
        self._began = self._clock()
        self._next_line = self._began + self._seconds_between_lines

    def advance(self, count: int) -> None:
        """Write a line if the last one is old enough."""
        if self._line_is_due():
            of_total = "" if self._total is None else f" of {self._total:,}"
            rate = f", {count / (self._clock() - self._began):,.0f}/s" if self._rated else ""
            self._write(f"{count:,}{of_total} {self._unit}{rate}")

    def note(self, text: str) -> None:
        """Write a line if the last one is old enough."""
        if self._line_is_due():
            self._write(f"{text}, {self._clock() - self._began:.0f} s")

    def _line_is_due(self) -> bool:
        now = self._clock()
        if now < self._next_line:
            return False
        self._next_line = now + self._seconds_between_lines
        return True

    def _write(self, text: str) -> None:
        self._console.print(f"... {self._name}: {text}")

    def end(self, outcome: StageOutcome) -> None:
        """Write the closing line."""
        self._console.print(str(outcome))

    def abandon(self) -> None:
        """Nothing to take away."""


def display_for(console: Console) -> Display:
    """Return the display that suits `console`."""
    return TerminalDisplay(console) if console.is_terminal else LineDisplay(console)
