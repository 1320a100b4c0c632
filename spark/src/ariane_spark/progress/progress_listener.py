"""Watches the streaming queries of a session that read queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from ariane_spark.progress.progress_displays import (
    ProgressBar,
    ProgressDisplay,
    ProgressLog,
    ProgressMetrics,
)
from ariane_spark.progress.query_progress import query_progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class ProgressListener(StreamingQueryListener):
    """Displays Spark's reports of queries; add it by ``spark.streams.addListener``."""

    def __init__(self, displays: Sequence[ProgressDisplay]) -> None:
        self._displays = displays
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name.
        """Keep the name of the query, which the event of its end lacks."""
        self._names[str(event.runId)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name.
        """Show a micro-batch."""
        batch = event.progress
        name = batch.name or str(batch.id)
        progress = query_progress(name, batch.batchId, batch.sources)
        if progress is not None:
            # A query that was started before it was watched.
            self._names[str(batch.runId)] = name
            for display in self._displays:
                display.show(progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name.
        """Do nothing: an idle query makes no progress."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name.
        """Forget a query that has ended."""
        name = self._names.pop(str(event.runId), None)
        if name is not None:
            for display in self._displays:
                display.forget(name)


@contextmanager
def watched(
    spark: SparkSession,
    *,
    log: bool = True,
    metrics: bool = False,
    bar: bool = False,
    displays: Sequence[ProgressDisplay] = (),
) -> Iterator[ProgressListener]:
    """Show the progress of the streaming queries of a session, during a block.

    Give queries a name (``queryName``): without one they are shown by their id.

    Args:
        spark: The session.
        log: Whether to write a line to Python's log every ten seconds.
        metrics: Whether to record metrics by the application's OpenTelemetry.
        bar: Whether to show a bar for each query on the terminal.
        displays: Further displays.
    """
    shown: list[ProgressDisplay] = list(displays)
    if log:
        shown.append(ProgressLog())
    if metrics:
        shown.append(ProgressMetrics())
    if bar:
        shown.append(ProgressBar())
    listener = ProgressListener(shown)
    spark.streams.addListener(listener)
    try:
        yield listener
    finally:
        spark.streams.removeListener(listener)
        for display in shown:
            display.close()
