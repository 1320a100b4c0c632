"""The home of a query: the broker that it writes to.

Each broker that a query may write to has a note of the home, so that it is known while others are
away. If two notes differ, the higher one counts::

    move_count     after a move the newer home counts
    broker_name    decides between writers that choose a first home at the same time
    committed_id   for the same home, the note with more committed batches counts

A note that moves a query carries the batches that the earlier home had committed, so that the new
home recognises a repeated batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ariane_broker.spark_batches.batch_records import Contents, contents_from, contents_rows


@dataclass(frozen=True, slots=True)
class SinkHome:
    """The home of a query."""

    broker_name: str
    """The broker for all of its messages."""
    move_count: int
    """How often it was moved before."""
    committed_id: int | None = None
    """The last batch that earlier homes committed; None: none, or unknown."""
    contents: Mapping[int, Contents] = field(default_factory=dict)
    """Contents of the latest of these batches, by id, ascending."""

    @property
    def rank(self) -> tuple[int, str, int]:
        """The key for comparing homes of a query: the higher one counts."""
        known = -1 if self.committed_id is None else self.committed_id
        return self.move_count, self.broker_name, known


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
        "topic": note.topic,
        "timestamp": note.timestamp_ms,
        "owner": note.owner,
    }


def note_from(says: Mapping[str, Any], commit_log_offset: int) -> HomeNote:
    """Restore a note."""
    home = SinkHome(says["home"], says["moves"], says["committed"], contents_from(says["contents"]))
    return HomeNote(
        home, says["topic"], says["timestamp"], commit_log_offset, says.get("owner", "")
    )
