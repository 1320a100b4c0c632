"""The ledger of decisions over dead letters, so that each is sent back once despite crashes.

::

    state/id-4f1c...               the name of the ledger in the brokers
    state/group-billing            the group of the dead letters
    state/run-000001/decisions/    Parquet: each dead letter, its outcome, the message
    state/run-000001/planned       from now on exactly these messages are sent;
                                   or planned-at-least-once
    state/run-000001/unsent-bills  but for those to this topic, which did not take them
    state/run-000001/sent          all of them are sent

A run without ``planned`` never sent a message and is removed. A run with ``planned`` but without
``sent`` is finished by the next run: its messages are written again under the same name, and
brokers recognise a repeat. What a topic did not take counts as never sent: later runs decide about
it anew. The folder may be any path or URL that Spark writes to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ariane_pipelines.repairs import SENT
from ariane_spark.errors import OptionIllegal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUN: Final = re.compile(r"run-([0-9]{6,})")
_IDENTITY: Final = re.compile(r"id-([0-9a-f]{32})")
_GROUP: Final = "group-"
_DECISIONS: Final = "decisions"
_PLANNED: Final = "planned"
_PLANNED_AT_LEAST_ONCE: Final = "planned-at-least-once"
_SENT: Final = "sent"
_UNSENT: Final = "unsent-"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a redrive."""

    number: int
    """Its number, from 1 on."""
    planned: bool = False
    """Whether its messages are decided."""
    sent: bool = False
    """Whether all of its messages are sent."""
    exactly_once: bool = True
    """Whether they are sent exactly once."""
    unsent_topics: frozenset[str] = frozenset()
    """Topics that did not take their messages."""

    @property
    def name(self) -> str:
        """Its folder within the ledger."""
        return f"run-{self.number:06}"


class RedriveLedger:
    """The ledger in one folder; for one redrive at a time."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """``folder`` is a path or URL; it need not exist."""
        self._spark = spark
        self._folder = folder.rstrip("/")
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only way to Hadoop's file systems.
        self._path = jvm.org.apache.hadoop.fs.Path
        configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - the same.
        self._files = self._path(self._folder).getFileSystem(configuration)

    def identity(self) -> str:
        """The name of the ledger in the brokers; drawn at random on the first call."""
        found = sorted(match[1] for match in map(_IDENTITY.fullmatch, self._names("")) if match)
        if found:
            return found[0]
        drawn = uuid4().hex
        self._touch(f"id-{drawn}")
        return drawn

    def check_group(self, group: str) -> None:
        """Check that the ledger belongs to a consumer group, or to none yet.

        Raises:
            OptionIllegal: It belongs to another group, whose places of dead letters differ.
        """
        owners = {name for name in self._names("") if name.startswith(_GROUP)}
        if owners - {f"{_GROUP}{group}"}:
            owner = min(owners).removeprefix(_GROUP)
            raise OptionIllegal("state", f"{self._folder} is that of group {owner}")

    def claim(self, group: str) -> None:
        """Assign the ledger to a consumer group.

        Raises:
            OptionIllegal: It belongs to another group.
        """
        self.check_group(group)
        self._touch(f"{_GROUP}{group}")

    def runs(self) -> Sequence[Run]:
        """The runs, the oldest first."""
        found = []
        for match in filter(None, map(_RUN.fullmatch, self._names(""))):
            marks = self._names(match[0])
            exactly_once = _PLANNED_AT_LEAST_ONCE not in marks
            planned = _PLANNED in marks or not exactly_once
            unsent = frozenset(
                mark.removeprefix(_UNSENT) for mark in marks if mark.startswith(_UNSENT)
            )
            found.append(Run(int(match[1]), planned, _SENT in marks, exactly_once, unsent))
        return sorted(found, key=lambda run: run.number)

    def begin(self) -> Run:
        """Begin a run; earlier runs that never sent a message are removed."""
        runs = self.runs()
        for run in runs:
            if not run.planned:
                self.forget(run)
        last = max((run.number for run in runs if run.planned), default=0)
        return Run(last + 1)

    def forget(self, run: Run) -> None:
        """Remove a run that sent no message."""
        self._files.delete(self._path(f"{self._folder}/{run.name}"), True)  # noqa: FBT003 - Java's: with all in it.

    def decide(self, run: Run, decisions: DataFrame) -> None:
        """Store the decisions; nothing is sent yet."""
        decisions.write.mode("overwrite").parquet(self._decisions_path(run))

    def decisions(self, run: Run) -> DataFrame:
        """The decisions of a run."""
        return self._spark.read.parquet(self._decisions_path(run))

    def mark_planned(self, run: Run, *, exactly_once: bool) -> Run:
        """Note that the decided messages are sent from now on, and with which guarantee."""
        self._touch(f"{run.name}/{_PLANNED if exactly_once else _PLANNED_AT_LEAST_ONCE}")
        return replace(run, planned=True, exactly_once=exactly_once)

    def mark_unsent(self, run: Run, topic: str) -> None:
        """Note that a topic did not take the messages of a run, and never will get them of it."""
        self._touch(f"{run.name}/{_UNSENT}{topic}")

    def mark_sent(self, run: Run) -> None:
        """Note that all decided messages of a run are sent, but for those of unsent topics."""
        self._touch(f"{run.name}/{_SENT}")

    def sent_letters(self) -> DataFrame | None:
        """The dead letters that are sent or planned, by place and time of death."""
        paths: dict[frozenset[str], list[str]] = {}
        for run in self.runs():
            if run.planned:
                paths.setdefault(run.unsent_topics, []).append(self._decisions_path(run))
        found = [
            self._spark.read.parquet(*some).where(
                (f.col("outcome") == SENT) & ~f.col("topic").isin(*unsent)
            )
            for unsent, some in paths.items()
        ]
        if not found:
            return None
        return reduce(DataFrame.unionByName, found).select("place", "died").distinct()

    def _decisions_path(self, run: Run) -> str:
        return f"{self._folder}/{run.name}/{_DECISIONS}"

    def _names(self, folder: str) -> set[str]:
        path = self._path(f"{self._folder}/{folder}" if folder else self._folder)
        if not self._files.exists(path):
            return set()
        return {status.getPath().getName() for status in self._files.listStatus(path)}

    def _touch(self, name: str) -> None:
        path = self._path(f"{self._folder}/{name}")
        self._files.create(path, True).close()  # noqa: FBT003 - Java's: replaces what is there.
