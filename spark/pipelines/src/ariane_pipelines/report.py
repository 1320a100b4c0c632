"""Lag, rates, delivery times and traces of topics and consumer groups, as one HTML file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ariane_pipelines.report_facts import ReportFacts, collect_facts
from ariane_pipelines.report_page import page_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_report(
    spark: SparkSession,
    endpoints: str,
    path: Path,
    *,
    since: datetime,
    until: datetime | None = None,
    pattern: str = ".*",
) -> ReportFacts:
    """Write a report on the messages stored in a time span; only headers are read.

    Args:
        spark: The session.
        endpoints: Name servers, ``host:port``, separated by commas.
        path: The file to write.
        since: Begin of the span, with a time zone.
        until: End of the span, exclusive; ``None``: now.
        pattern: Topics by regular expression.

    Returns:
        The facts of the report.

    Raises:
        OptionError: The pattern is not a regular expression.
        ArianeError: A name server or broker does not answer.
    """
    made_at = datetime.now(UTC)
    facts = collect_facts(spark, endpoints, pattern, since=since, until=until or made_at)
    path.write_text(page_of(facts, made_at), encoding="utf-8")
    return facts
