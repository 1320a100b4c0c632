"""Batches that are staged, committed, or in publication: a state derived from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from operator import attrgetter
from typing import Any, Final

import numpy as np

from ariane_broker.log.derived.log_rows import is_committed, is_of_topic, records_where
from ariane_broker.log.derived.snapshots import Document, SnapshotState
from ariane_broker.spark_batches.records.batch_agreements import BatchAgreements, Owed
from ariane_broker.spark_batches.records.batch_progress import Progress, Publication
from ariane_broker.spark_batches.records.batch_records import (
    AttemptKey,
    BatchEvent,
    BatchKey,
    Contents,
    Stage,
    batch_event_of,
    contents_from,
    contents_rows,
    name_of_stage,
    stage_of,
)
from ariane_broker.spark_batches.records.sink_homes import HomeNote, note_from, note_json
from ariane_broker.topics.system_topics import BATCH_TOPIC, STAGE_TOPIC
from ariane_record import RecordFields
from ariane_record.layout import HEADER_BYTES
from ariane_record.names import TIMER_TOPIC
from ariane_storage.log.records.fields import FIELD_STARTS, FieldColumn
from ariane_storage.log.scan import Stretch

WAITING: Final = -1
"""In place of a queue id: counts records that wait for their delivery time."""

_HALF_OFFSET_BEFORE_BODY: Final = HEADER_BYTES - FIELD_STARTS["half_offset"]


class BatchTable(SnapshotState):
    """The batch transactions of this broker."""

    snapshot_version = 5

    name: Final = "batch transactions"
    """The name of this state in the process's log."""
    matters_since_ms: Final = None

    def __init__(self) -> None:
        """Start without batches."""
        self.change_count = 0
        """Grows with every change."""
        self.staged: dict[BatchKey, dict[AttemptKey, list[Stage]]] = {}
        """Stages of each attempt, by batch."""
        self.stage_counts: Counter[str] = Counter()
        """How many stages are staged, by query."""
        self.stage_count = 0
        """How many of all queries."""
        self.progress: dict[str, Progress] = {}
        """The progress of each query."""
        self.publications: dict[BatchKey, Publication] = {}
        """Batches that are committed and not fully visible yet, oldest first."""
        self.homes: dict[str, HomeNote] = {}
        """The home of each query, if noted."""
        self.agreements = BatchAgreements()
        """What is prepared here, and the decisions of which other brokers are to be notified."""

    @property
    def needed_from(self) -> int | None:
        """Commit-log offset of the oldest record that still matters; None without any."""
        # All in C: it is asked on the loop.
        attempts = chain.from_iterable(map(dict.values, self.staged.values()))
        stages, noted = chain.from_iterable(attempts), self.homes.values()
        offsets = map(attrgetter("commit_log_offset"), chain(stages, self.progress.values(), noted))
        published = map(attrgetter("stages"), self.publications.values())
        return min(chain(offsets, chain.from_iterable(published)), default=None)

    @property
    def query_ids(self) -> set[str]:
        """All known queries."""
        batches = (*self.staged, *self.publications)
        return {*self.progress, *self.homes, *(batch.query_id for batch in batches)}

    def knows(self, query_id: str) -> bool:
        """Whether there is anything of a query."""
        if query_id in self.progress or query_id in self.homes:
            return True
        return any(batch.query_id == query_id for batch in chain(self.staged, self.publications))

    def is_committed(self, batch: BatchKey) -> bool:
        """Whether a batch, or a later one of its query, is committed."""
        progress = self.progress.get(batch.query_id)
        return progress is not None and batch.batch_id <= progress.batch_id

    def is_open(self, query_id: str) -> bool:
        """Whether something is committed or prepared that is not visible, or not known, by all."""
        known = (self.agreements.prepared, self.agreements.owed, self.publications)
        return any(batch.query_id == query_id for batch in chain.from_iterable(known))

    def contents_of(self, batch: BatchKey) -> Contents | None:
        """The contents of a committed batch; None if it is not committed, or not kept any more."""
        progress = self.progress.get(batch.query_id)
        return None if progress is None else progress.contents.get(batch.batch_id)

    def stages_of(self, batch: BatchKey, attempt: AttemptKey) -> list[Stage]:
        """The stages of an attempt so far, in order."""
        return self.staged.get(batch, {}).get(attempt, [])

    def add_stage(self, batch: BatchKey, attempt: AttemptKey, stage: Stage) -> None:
        """Add a stored stage."""
        if not self.is_committed(batch):
            self.staged.setdefault(batch, {}).setdefault(attempt, []).append(stage)
            self._count_stages(batch.query_id, 1)
            self.change_count += 1

    def commit(
        self,
        batch: BatchKey,
        stages: Sequence[int],
        progress: Progress,
        others: Sequence[str] | None = None,
    ) -> None:
        """Apply a commit: the batch's other attempts and older batches are dropped.

        Args:
            batch: The batch.
            stages: Commit-log offsets of its stages here.
            progress: The progress with it.
            others: Brokers with parts of it, which are to be notified; None if nobody is.
        """
        self.agreements.prepared.pop(batch, None)
        if others is not None:
            contents = progress.contents[batch.batch_id]
            self.agreements.owed[batch] = Owed(contents, set(others))
        self.advance(batch.query_id, progress.joined(self.progress.get(batch.query_id)))
        if stages:
            self.publications[batch] = Publication(batch, tuple(stages), progress.timestamp_ms)

    def advance(self, query_id: str, progress: Progress) -> None:
        """Set the progress of a query; what is prepared stays staged until it is decided."""
        self.progress[query_id] = progress
        self._drop_staged(query_id, progress.batch_id, kept=self.agreements.prepared)
        self.change_count += 1

    def prepare(self, batch: BatchKey, decision_id: int, stages: Sequence[int]) -> None:
        """Keep stages of a batch until the home says what becomes of it."""
        self.agreements.prepare(batch, decision_id, stages)
        self.change_count += 1

    def release(self, batch: BatchKey, decision_id: int) -> None:
        """Keep a batch no longer for a decision that never came; what is staged stays."""
        self.agreements.release(batch, decision_id)
        if self.is_committed(batch) and batch not in self.agreements.prepared:
            self._unstage(batch.query_id, {batch})
        self.change_count += 1

    def notified(self, batch: BatchKey, broker_names: Sequence[str]) -> None:
        """Note that other brokers know of a decision; without any: that there are none."""
        self.agreements.notified(batch, broker_names)
        self.change_count += 1

    def undo(self, batch: BatchKey) -> None:
        """Take back a decision of which nobody was notified, because another home has decided."""
        self.publications.pop(batch, None)
        owed = self.agreements.owed.pop(batch, None)
        progress, note = self.progress.get(batch.query_id), self.homes.get(batch.query_id)
        self.change_count += 1
        if progress is None or owed is None or self.contents_of(batch) != owed.contents:
            # The other home has told what it decided about the batch.
            return
        # What the other home has committed under its name counts.
        known = {} if note is None else dict(note.home.contents)
        own = {key: each for key, each in progress.contents.items() if key != batch.batch_id}
        contents = dict(sorted({**known, **own}.items()))
        ids = [] if note is None or note.home.committed_id is None else [note.home.committed_id]
        last_id = max((*contents, *ids), default=None)
        if last_id is None:
            del self.progress[batch.query_id]
        else:
            undone = replace(progress, batch_id=last_id, contents=contents)
            self.progress[batch.query_id] = undone

    def published(self, batch: BatchKey, stage: int, queue_id: int, count: int) -> None:
        """Count messages of a stage that were appended to a queue, or wait (``WAITING``)."""
        counts = self.publications[batch].counts
        counts[stage, queue_id] = counts.get((stage, queue_id), 0) + count
        self.change_count += 1

    def done(self, batch: BatchKey) -> None:
        """Note that a batch is fully visible."""
        self.publications.pop(batch, None)
        self.change_count += 1

    def drop(self, batch: BatchKey) -> None:
        """Drop the staged records of a batch."""
        self._unstage(batch.query_id, {batch})
        self.change_count += 1

    def forget_query(self, query_id: str) -> None:
        """Forget a query that was idle for too long."""
        self.progress.pop(query_id, None)
        self.homes.pop(query_id, None)
        self.agreements.forget(query_id)
        self.change_count += 1

    def delete_query(self, query_id: str, lost_ids: Sequence[int]) -> None:
        """Delete a query, with its staged records and batches that cannot be published."""
        self._drop_staged(query_id)
        for batch_id in lost_ids:
            self.publications.pop(BatchKey(query_id, batch_id), None)
        self.forget_query(query_id)

    def note_home(self, query_id: str, note: HomeNote) -> None:
        """Set the home of a query; batches that it knows to be committed count as committed."""
        self.homes[query_id] = note
        self.change_count += 1
        last_id = note.home.committed_id
        if last_id is not None and not self.is_committed(BatchKey(query_id, last_id)):
            contents = dict(note.home.contents)
            place, when_ms = note.commit_log_offset, note.timestamp_ms
            progress = Progress(last_id, place, when_ms, contents)
            self.advance(query_id, progress.joined(self.progress.get(query_id)))

    def _drop_staged(
        self, query_id: str, last_id: float = inf, kept: Iterable[BatchKey] = ()
    ) -> None:
        """Drop what is staged for batches of a query up to one, but for some of them."""
        gone = [one for one in self.staged if one.query_id == query_id and one.batch_id <= last_id]
        self._unstage(query_id, set(gone).difference(kept))

    def _unstage(self, query_id: str, batches: Collection[BatchKey]) -> None:
        """Drop what is staged for some batches of a query. In C: there may be many."""
        gone = list(map(self.staged.pop, self.staged.keys() & batches))
        stages = chain.from_iterable(map(dict.values, gone))
        self._count_stages(query_id, -sum(map(len, stages)))

    def _count_stages(self, query_id: str, more: int) -> None:
        self.stage_count += more
        self.stage_counts[query_id] += more
        if not self.stage_counts[query_id]:
            del self.stage_counts[query_id]

    # As a state over the log.

    def replay(self, stretch: Stretch) -> None:
        """Apply the records of batches in a stretch of the log, in order."""
        spoken = is_of_topic(stretch, STAGE_TOPIC) | is_of_topic(stretch, BATCH_TOPIC)
        rows = np.flatnonzero(spoken).tolist()
        bounds = [0, *(row + 1 for row in rows)]
        ends = [*rows, len(spoken)]
        speeches = records_where(stretch, spoken)
        for first, behind in zip(bounds, ends, strict=True):
            self._restore_messages(stretch, first, behind)
            fields = next(speeches, None)
            if fields is not None:
                self.restore(fields)

    def restore(self, fields: RecordFields) -> None:
        """Apply one record of the stage topic or the batch topic."""
        if fields.topic == STAGE_TOPIC:
            self.add_stage(*stage_of(fields))
            return
        event, batch, says = batch_event_of(fields)
        if event is BatchEvent.DONE:
            self.done(batch)
        elif event is BatchEvent.ABORT:
            self.drop(batch)
        elif event is BatchEvent.HOME:
            self.note_home(batch.query_id, note_from(says, fields.commit_log_offset))
        elif event is BatchEvent.FORGET:
            self.delete_query(batch.query_id, says["lost"])
        elif event is BatchEvent.PREPARE:
            self.prepare(batch, says["decision"], says["stages"])
        elif event is BatchEvent.RELEASE:
            self.release(batch, says["decision"])
        elif event is BatchEvent.NOTIFIED:
            self.notified(batch, says["brokers"])
        elif event is BatchEvent.UNDO:
            self.undo(batch)
        else:
            progress = Progress(
                batch.batch_id,
                fields.commit_log_offset,
                # Not the store timestamp: that may be ahead of the clock.
                says.get("timestamp", fields.born_timestamp_ms),
                contents_from(says["contents"]),
            )
            self.commit(batch, says.get("stages", ()), progress, says.get("others"))

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:
        """Do nothing: stages of missing topics are dropped when they would be published."""

    def clear(self) -> None:
        """Forget everything."""
        self.staged.clear()
        self.stage_counts.clear()
        self.stage_count = 0
        self.progress.clear()
        self.publications.clear()
        self.homes.clear()
        self.agreements.clear()

    def copied(self) -> Document:
        """Copy everything: progress and homes are replaced, and never changed."""
        staged, progress, homes = self._copied_stages(), self.progress.copy(), self.homes.copy()
        published = list(self.publications.values())
        counts = list(map(dict.copy, map(attrgetter("counts"), published)))
        agreements = self.agreements.copied()

        def contents() -> dict[str, Any]:
            return {
                "staged": [[*batch, *attempt, stages] for batch, attempt, stages in staged()],
                "progress": [
                    [
                        query_id,
                        *(each.batch_id, each.commit_log_offset, each.timestamp_ms),
                        contents_rows(each.contents),
                    ]
                    for query_id, each in progress.items()
                ],
                "publications": [
                    [
                        *each.batch,
                        each.stages,
                        [[*key, count] for key, count in counted.items()],
                        each.committed_ms,
                    ]
                    for each, counted in zip(published, counts, strict=True)
                ],
                "homes": [
                    [query_id, each.commit_log_offset, note_json(each)]
                    for query_id, each in homes.items()
                ],
                "agreements": agreements(),
            }

        return contents

    def _copied_stages(self) -> Callable[[], Iterator[tuple[BatchKey, AttemptKey, list[Stage]]]]:
        """Copy the stages of all attempts; what is returned walks over the copies."""
        batches, attempts = list(self.staged), list(map(list, self.staged.values()))
        stages = list(map(list, chain.from_iterable(map(dict.values, self.staged.values()))))

        def walk() -> Iterator[tuple[BatchKey, AttemptKey, list[Stage]]]:
            keys = (
                (batch, attempt)
                for batch, of_batch in zip(batches, attempts, strict=True)
                for attempt in of_batch
            )
            for (batch, attempt), each in zip(keys, stages, strict=True):
                yield batch, attempt, each

        return walk

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from what ``copied`` made."""
        self.clear()
        for query_id, batch_id, partition_id, token, stages in contents["staged"]:
            attempts = self.staged.setdefault(BatchKey(query_id, batch_id), {})
            attempts[AttemptKey(partition_id, token)] = [Stage(*stage) for stage in stages]
            self._count_stages(query_id, len(stages))
        for query_id, batch_id, place, timestamp_ms, rows in contents["progress"]:
            self.progress[query_id] = Progress(batch_id, place, timestamp_ms, contents_from(rows))
        for query_id, batch_id, stages, counts, committed_ms in contents["publications"]:
            batch = BatchKey(query_id, batch_id)
            self.publications[batch] = Publication(
                batch,
                tuple(stages),
                committed_ms,
                {(stage, queue): count for stage, queue, count in counts},
            )
        for query_id, place, offsets in contents["homes"]:
            self.homes[query_id] = note_from(offsets, place)
        self.agreements.take_over(contents["agreements"])

    def _restore_messages(self, stretch: Stretch, first: int, behind: int) -> None:
        """Count the messages of publications among some records of a stretch."""
        if first >= behind or not self.publications:
            return
        part = stretch.places.rows(first, behind)
        whole = replace(stretch, places=part)
        ordinary = ~is_committed(whole)
        spots = part.body_starts - _HALF_OFFSET_BEFORE_BODY
        named = FieldColumn(part.buffer, ">i8", spots, 0).get().astype(np.int64)
        queue_ids = np.where(is_of_topic(whole, TIMER_TOPIC), WAITING, part.front("queue_id"))
        for publication in self.publications.values():
            for stage in publication.stages:
                of_stage = queue_ids[ordinary & (named == name_of_stage(stage))]
                for queue_id, count in zip(*np.unique(of_stage, return_counts=True), strict=True):
                    self.published(publication.batch, stage, int(queue_id), int(count))
