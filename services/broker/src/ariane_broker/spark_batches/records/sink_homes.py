"""The home of a query: the broker that decides about its batches.

Each broker of a query has a note of the home, so that it is known while others are away. If two
notes differ, the higher one counts::

    move_count     after a move the newer home counts
    broker_name    decides between writers that choose a first home at the same time
    committed_id   for the same home, the note with more committed batches counts

A note carries the batches that are committed as far as its broker knows, so that a new home, which
collects the notes of all brokers, recognises a repeated batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ariane_broker.spark_batches.records.batch_records import Contents, contents_from, contents_rows

CONTENTS_KEPT: Final = 128
"""The number of batches of a query whose contents are kept: more than the 100 that a checkpoint of
Spark can go back by itself (``spark.sql.streaming.minBatchesToRetain``)."""


@dataclass(frozen=True, slots=True)
class SinkHome:
    """The home of a query."""

    broker_name: str
    """The broker that decides."""
    move_count: int
    """How often it was moved before."""
    committed_id: int | None = None
    """The last batch that earlier homes committed; None: none, or unknown."""
    contents: Mapping[int, Contents] = field(default_factory=dict)
    """Contents of the latest of these batches, by id, ascending."""
    broker_names: frozenset[str] = frozenset()
    """All brokers that may have parts of its batches."""
    given_up: str = ""
    """The home before, if it was given up without an answer."""

    @property
    def term(self) -> tuple[int, str]:
        """The same for one home as long as it decides; that of a later home is higher."""
        return self.move_count, self.broker_name

    @property
    def rank(self) -> tuple[int, str, int]:
        """The key for comparing homes of a query: the higher one counts."""
        known = -1 if self.committed_id is None else self.committed_id
        return *self.term, known

    def merged(self, other: SinkHome) -> SinkHome:
        """The home with what another note knows: its batches and its brokers."""
        contents = {**other.contents, **self.contents}
        ids = [each for each in (self.committed_id, other.committed_id) if each is not None]
        return replace(
            self,
            committed_id=max(ids, default=None),
            contents={
                batch_id: contents[batch_id] for batch_id in sorted(contents)[-CONTENTS_KEPT:]
            },
            broker_names=self.broker_names | other.broker_names,
        )


@dataclass(frozen=True, slots=True)
class HomeNote:
    """A noted home."""

    home: SinkHome
    """The home."""
    topic: str
    """The topic that the query writes to; empty if its rows name topics."""
    timestamp_ms: int
    """When it was noted, or last read, within a day."""
    commit_log_offset: int
    """Offset of its record."""
    owner: str = ""
    """The user who noted it first; empty if nobody was known."""


def note_json(note: HomeNote) -> dict[str, Any]:
    """A note as JSON, without its commit-log offset."""
    return {
        "home": note.home.broker_name,
        "moves": note.home.move_count,
        "committed": note.home.committed_id,
        "contents": contents_rows(note.home.contents),
        "brokers": sorted(note.home.broker_names),
        "given_up": note.home.given_up,
        "topic": note.topic,
        "timestamp": note.timestamp_ms,
        "owner": note.owner,
    }


def note_from(says: Mapping[str, Any], commit_log_offset: int) -> HomeNote:
    """Restore a note."""
    home = SinkHome(
        says["home"],
        says["moves"],
        says["committed"],
        contents_from(says["contents"]),
        frozenset(says.get("brokers", ())),
        says.get("given_up", ""),
    )
    return HomeNote(
        home, says["topic"], says["timestamp"], commit_log_offset, says.get("owner", "")
    )
