"""Displays of the progress of streaming queries: the log, OpenTelemetry, a bar on a terminal."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from ariane_record.counted import counted
from ariane_spark.progress.query_progress import QueryProgress

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from rich.console import Console
    from rich.progress import Progress, TaskID

_log: Final = logging.getLogger(__name__)

LAG_METRIC: Final = "ariane.spark.lag"
MESSAGES_METRIC: Final = "ariane.spark.messages"


class ProgressDisplay(Protocol):
    """Shows the progress of queries; called by one thread of Spark's."""

    def show(self, progress: QueryProgress) -> None:
        """Show a micro-batch that is done."""

    def forget(self, query: str) -> None:
        """Forget a query that has ended."""

    def close(self) -> None:
        """End the display."""


class ProgressLog:
    """A line in Python's log for each query, at a limited rate."""

    def __init__(
        self, interval_s: float = 10.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Log nothing yet.

        Args:
            interval_s: The least number of seconds between two lines of one query.
            monotonic: Seconds since some moment.
        """
        self._interval_s = interval_s
        self._monotonic = monotonic
        self._next_s: dict[str, float] = {}
        self._counted: dict[str, int] = {}

    def show(self, progress: QueryProgress) -> None:
        """Log the number of rows since the last line, and the lag."""
        query = progress.query
        self._counted[query] = self._counted.get(query, 0) + progress.row_count
        now = self._monotonic()
        if now < self._next_s.get(query, now):
            return
        self._next_s[query] = now + self._interval_s
        furthest = max(progress.lags, key=lambda queue: progress.lags[queue])
        _log.info(
            "query %s, micro-batch %d: %s, %s behind (%s: %d)",
            query,
            progress.batch_id,
            counted(self._counted.pop(query), "row"),
            counted(progress.lag, "message"),
            furthest,
            progress.lags[furthest],
        )

    def forget(self, query: str) -> None:
        """Forget the query, so that it is logged at once after its next start."""
        self._next_s.pop(query, None)
        self._counted.pop(query, None)

    def close(self) -> None:
        """Do nothing."""


class ProgressMetrics:
    """Metrics by OpenTelemetry: the lag of each queue, and the number of processed messages."""

    def __init__(self, provider: MeterProvider | None = None) -> None:
        """Register the instruments.

        Args:
            provider: Makes the instruments; ``None``: the application's global one.
        """
        from opentelemetry import metrics  # noqa: PLC0415 - an extra.

        meter = (provider or metrics.get_meter_provider()).get_meter("ariane_spark")
        meter.create_observable_gauge(
            LAG_METRIC,
            callbacks=[self._lags],
            unit="{message}",
            description="Messages that a streaming query has not read yet.",
        )
        self._messages = meter.create_counter(
            MESSAGES_METRIC,
            unit="{message}",
            description="Messages that a streaming query has read or filtered out.",
        )
        self._latest: dict[str, QueryProgress] = {}
        # Readers of metrics have threads of their own.
        self._lock = threading.Lock()

    def show(self, progress: QueryProgress) -> None:
        """Record the figures of a micro-batch."""
        with self._lock:
            self._latest[progress.query] = progress
        for queue, count in progress.advance.items():
            if count:
                self._messages.add(count, _attributes(progress.query, queue))

    def forget(self, query: str) -> None:
        """Stop reporting the lag of a query that has ended."""
        with self._lock:
            self._latest.pop(query, None)

    def close(self) -> None:
        """Stop reporting lags."""
        with self._lock:
            self._latest.clear()

    def _lags(self, _options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - an extra.

        with self._lock:
            latest = list(self._latest.values())
        return [
            Observation(lag, _attributes(progress.query, queue))
            for progress in latest
            for queue, lag in progress.lags.items()
        ]


class ProgressBar:
    """A bar for each query on a terminal, from its start to the present end of its queues."""

    def __init__(self, console: Console | None = None) -> None:
        """Show nothing yet.

        Args:
            console: The terminal; ``None``: standard error.
        """
        from rich.console import Console  # noqa: PLC0415 - an extra.
        from rich.progress import (  # noqa: PLC0415 - the same.
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bars: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def show(self, progress: QueryProgress) -> None:
        """Move the bar of a query."""
        if not self._tasks:
            self._bars.start()
        if progress.query not in self._tasks:
            self._tasks[progress.query] = self._bars.add_task(progress.query, total=None)
        task_id = self._tasks[progress.query]
        self._bars.advance(task_id, sum(progress.advance.values()))
        done = self._bars.tasks[self._bars.task_ids.index(task_id)].completed
        self._bars.update(task_id, total=done + progress.lag)

    def forget(self, query: str) -> None:
        """Leave the bar as it is."""
        self._tasks.pop(query, None)

    def close(self) -> None:
        """Leave the bars as they are, and release the terminal."""
        self._bars.stop()


def _attributes(query: str, queue: Any) -> dict[str, str | int]:
    return {
        "ariane.spark.query": query,
        "messaging.destination.name": queue.topic,
        "ariane.broker.name": queue.broker_name,
        "messaging.destination.partition.id": str(queue.queue_id),
    }
