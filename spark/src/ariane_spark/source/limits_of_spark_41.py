"""Stand-ins for Spark 4.2's limits, for Spark 4.0 and 4.1, which have none."""

from __future__ import annotations

from dataclasses import dataclass


class ReadLimit:
    """The limit of one micro-batch."""


class ReadAllAvailable(ReadLimit):
    """No limit."""


@dataclass(frozen=True)
class ReadMinRows(ReadLimit):
    """At least so many rows."""

    min_rows: int


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    """At most so many rows."""

    max_rows: int


@dataclass(frozen=True)
class ReadMaxBytes(ReadLimit):
    """At most so many bytes."""

    max_bytes: int


class SupportsTriggerAvailableNow:
    """Marks readers that can end a run in several micro-batches; these do not ask for it."""
