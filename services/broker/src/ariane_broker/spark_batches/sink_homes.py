"""Which broker a query writes to.

Each broker that a query may write to notes it, so that it is known while others are away. Notes
are compared, and the higher one stands wherever both are known::

    move_count     a query that was moved more often is where the last move took it
    broker_name    of several that choose at the same time, for the first time
    committed_id   the same home, of which more is known

A note that moves a query carries what the broker before had committed, so that a batch which comes
again is recognised at the new home, whoever brings the note there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ariane_broker.spark_batches.batch_records import Contents, contents_from, contents_rows


@dataclass(frozen=True, slots=True)
class SinkHome:
    """Where a query writes.

    Attributes:
        broker_name: The broker that all of its messages go to.
        move_count: How often it was moved before.
        committed_id: The last batch that homes before committed; None: none, or nobody knows.
        contents: Those of the latest of these batches, by their ids, ascending.
    """

    broker_name: str
    move_count: int
    committed_id: int | None = None
    contents: Mapping[int, Contents] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[int, str, int]:
        """Of two homes of a query the one with the higher rank stands."""
        known = -1 if self.committed_id is None else self.committed_id
        return self.move_count, self.broker_name, known


@dataclass(frozen=True, slots=True)
class HomeNote:
    """A home as it is noted.

    Attributes:
        home: The home.
        topic: The topic that the query writes to; empty when its rows name topics.
        timestamp_ms: When it was noted, or asked for last, within a day.
        commit_log_offset: Of the record that says so.
    """

    home: SinkHome
    topic: str
    timestamp_ms: int
    commit_log_offset: int


def note_json(note: HomeNote) -> dict[str, Any]:
    """A note as JSON has it, without its place in the log."""
    return {
        "home": note.home.broker_name,
        "moves": note.home.move_count,
        "committed": note.home.committed_id,
        "contents": contents_rows(note.home.contents),
        "topic": note.topic,
        "timestamp": note.timestamp_ms,
    }


def note_from(says: Mapping[str, Any], commit_log_offset: int) -> HomeNote:
    """The same as it was.

    Args:
        says: JSON.
        commit_log_offset: Of the record that says so.
    """
    home = SinkHome(says["home"], says["moves"], says["committed"], contents_from(says["contents"]))
    return HomeNote(home, says["topic"], says["timestamp"], commit_log_offset)
