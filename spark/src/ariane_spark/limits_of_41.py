"""Stand-ins for Spark 4.2's limits, for Spark 4.1, which has none."""

from __future__ import annotations

from dataclasses import dataclass


class ReadLimit:
    """How far one micro-batch goes."""


class ReadAllAvailable(ReadLimit):
    """To the end."""


@dataclass(frozen=True)
class ReadMinRows(ReadLimit):
    """Not before there are so many rows."""

    min_rows: int


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    """So many rows at most."""

    max_rows: int


@dataclass(frozen=True)
class ReadMaxBytes(ReadLimit):
    """So many bytes at most."""

    max_bytes: int


class SupportsTriggerAvailableNow:
    """Marks readers that can end a run in several micro-batches; Spark 4.1 does not ask for it."""
