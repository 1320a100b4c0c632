"""How far a query has come, and how much of a committed batch is visible."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ariane_broker.spark_batches.records.batch_records import BatchKey, Contents
from ariane_broker.spark_batches.records.sink_homes import CONTENTS_KEPT


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a query."""

    batch_id: int
    """The last committed batch."""
    commit_log_offset: int
    """Offset of its commit record."""
    timestamp_ms: int
    """When it was committed."""
    contents: dict[int, Contents]
    """Contents of the latest committed batches by id, ascending, up to this one."""

    def joined(self, earlier: Progress | None) -> Progress:
        """The later of both, with the contents of both batches, as many as are kept."""
        if earlier is None:
            return self
        contents = {**earlier.contents, **self.contents}
        kept = {batch_id: contents[batch_id] for batch_id in sorted(contents)[-CONTENTS_KEPT:]}
        return replace(max(self, earlier, key=lambda each: each.batch_id), contents=kept)


@dataclass(slots=True)
class Publication:
    """A batch that is committed and not yet visible as a whole."""

    batch: BatchKey
    """The batch."""
    stages: tuple[int, ...]
    """Commit-log offsets of its stages, in the order of publication."""
    committed_ms: int
    """When it was committed; records with later delivery times wait."""
    counts: dict[tuple[int, int], int] = field(default_factory=dict)
    """Messages so far, by stage and queue."""
