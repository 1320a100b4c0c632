"""The rows of a request: a table of records, what rows ask for besides, and what became of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ariane_broker.delay.delay import Delay
from ariane_broker.errors.public_errors import block_corrupted
from ariane_broker.log.promise import AcknowledgedLevel, Demand
from ariane_broker.queue_key import QueueKey
from ariane_record import ProducerSequence, RecordTable
from ariane_record.checksums.checksum import crc32
from ariane_servicekit.errors import ServiceError
from ariane_storage.writing.append import Appended


class RowTerms(NamedTuple):
    """What a row asks for beside being appended; most rows ask for nothing."""

    delay: Delay | None = None
    """When the row is to be delivered; None for at once."""
    demand: Demand | None = None
    """The level to reach, where that is more than the broker's own; or None."""
    half_group: str | None = None
    """The producer group of a half message; None for other rows."""
    refusal: ServiceError | None = None
    """Why the row cannot be appended."""


NO_TERMS: Final = RowTerms()
_as_queue: Final[Callable[[tuple[str, int]], QueueKey]] = partial(tuple.__new__, QueueKey)


# Not frozen, because that takes longer than the rest of a lone row.
@dataclass(slots=True, eq=False)
class Rows:
    """Rows of records, each for one queue."""

    topics: Sequence[str]
    """The topic of each."""
    queue_ids: Sequence[int]
    """The queue of each."""
    table: RecordTable | None
    """The records; None if the columns of the request were wrong."""
    sequences: Sequence[ProducerSequence | None]
    """Each row's place in its producer's stream; None: every arrival is stored."""
    terms: Sequence[RowTerms] | None = None
    """What each asks for besides; None if none of them does."""
    is_plain: bool = False
    """Whether the broker has encoded the records, and filled in missing fields."""
    trace_parents: Sequence[str] = ()
    """Spans in which the messages were sent."""

    @classmethod
    def one(
        cls,
        table: RecordTable,
        queue_id: int,
        sequence: ProducerSequence | None = None,
        terms: RowTerms | None = None,
    ) -> Rows:
        """A row alone."""
        return cls(
            table.topics, (queue_id,), table, (sequence,), None if terms is None else (terms,)
        )

    @classmethod
    def refused(cls, topics: Sequence[str], error: ServiceError) -> Rows:
        """Rows without records."""
        count = len(topics)
        terms = (RowTerms(refusal=error),) * count
        return cls(topics, (0,) * count, None, (None,) * count, terms)

    @classmethod
    def joined(cls, rows: Sequence[Rows]) -> Rows:
        """Lone rows side by side, all with records and terms; as plain as the first of them."""
        return cls(
            [each.topics[0] for each in rows],
            [each.queue_ids[0] for each in rows],
            RecordTable.joined([each.table for each in rows if each.table is not None]),
            [each.sequences[0] for each in rows],
            [each.terms_of(0) for each in rows],
            rows[0].is_plain,
        )

    def __len__(self) -> int:
        return len(self.topics)

    @property
    def counts(self) -> Sequence[int]:
        """How many records each has."""
        return (0,) * len(self) if self.table is None else self.table.counts

    def queues(self) -> list[QueueKey]:
        """The queue of each row."""
        return list(map(_as_queue, zip(self.topics, self.queue_ids, strict=True)))

    def terms_of(self, row: int) -> RowTerms:
        """What a row asks for beside being appended."""
        return NO_TERMS if self.terms is None else self.terms[row]

    @property
    def have_demands(self) -> bool:
        """Whether some must be safer than the broker's own promise."""
        return any(each.demand is not None for each in self.terms or ())

    @property
    def are_halves(self) -> bool:
        """Whether all are half messages."""
        return self.terms is not None and all(each.half_group is not None for each in self.terms)

    def each(self) -> list[Rows]:
        """Each row alone."""
        if len(self) == 1:
            return [self]
        table, rule = self.table, "" if self.table is None else _fault_of(self.table)
        if rule:
            return Rows.refused(self.topics, block_corrupted(-1, rule)).each()
        tables = [None] * len(self) if table is None else table.rows()
        terms = [None] * len(self) if self.terms is None else [(each,) for each in self.terms]
        columns = zip(self.topics, self.queue_ids, tables, self.sequences, terms, strict=True)
        return [
            Rows((topic,), (queue_id,), of_row, (sequence,), terms_of_row, self.is_plain)
            for topic, queue_id, of_row, sequence, terms_of_row in columns
        ]


def _fault_of(table: RecordTable) -> str:
    """Why rows cannot be cut out of a table; empty if they can."""
    sizes, size_bytes = table.sizes, len(table.records)
    if int(sizes.min()) < 0 or int(sizes.sum(dtype="int64")) != size_bytes:
        return f"the sizes of its table do not add up to its {size_bytes} bytes"
    # The rows have only this checksum.
    return (
        "" if crc32(table.records) == table.crc32 else ("its checksum differs: damaged on the way")
    )


# Not frozen: level and error are known only when the promise holds.
@dataclass(slots=True, eq=False)
class Outcome:
    """What became of neighbouring rows that were stored together, or of one row."""

    appended: Appended | None = None
    """Where they are stored; None if they are not."""
    error: ServiceError | None = None
    """Why they failed. With ``appended`` set: they are stored, and the level is unknown."""
    level: AcknowledgedLevel | None = None
    """The level that they reached."""
    duplicate: bool = False
    """Whether they had been stored before."""
    resized: bool = False
    """Whether their records are stored in other sizes than they came in."""
    demand: Demand | None = None
    """The level that they were to reach, where that is more than the broker's own; or None."""

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return 1 if self.appended is None else len(self.appended)


Taken: TypeAlias = list[Outcome] | Awaitable[list[Outcome]]
"""The outcomes, or an awaitable of them."""
