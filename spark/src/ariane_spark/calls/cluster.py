"""The readers' view of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.options.options import FETCH_BYTES_MAX, ReadOptions
from ariane_spark.positions.offsets import Positions
from ariane_spark.positions.queue_catalog import QueueCatalog
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail

if TYPE_CHECKING:
    from ariane_record.decoding.columns import RecordColumns

WITHOUT_BODIES: Final = 4
"""The factor for the size of chunks of which only the headers are sent."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """The form in which ranges are fetched."""

    detail: Detail
    """The parts of each message."""
    chunk_bytes: int
    """About how many bytes of records one chunk covers."""
    tags: frozenset[str] = frozenset()
    """Only messages with one of these; empty: all."""
    condition: str = ""
    """Only messages that fulfil this condition in SQL92; empty: all."""

    @classmethod
    def of(cls, detail: Detail, options: ReadOptions) -> Fetch:
        """The level of detail that a set of columns needs.

        Args:
            detail: The requested parts of each message.
            options: The options of the query.
        """
        chunk_bytes = options.fetch_bytes
        if detail < Detail.RECORDS:
            # A chunk without bodies is small, and a batch of few rows costs Spark as much as one
            # of many.
            chunk_bytes = min(FETCH_BYTES_MAX, WITHOUT_BODIES * chunk_bytes)
        return cls(detail, chunk_bytes, options.tags, options.condition)


class RangeChunk(NamedTuple):
    """Some messages of a range."""

    records: RecordColumns | None
    """The records in order; ``None`` if a filter left none."""
    next_queue_offset: QueueOffset
    """The queue offset after the last examined message."""
    lost: Sequence[tuple[int, int]] = ()
    """First queue offset and count of consecutive messages before it that the broker has lost."""
    byte_count: int = 0
    """Bytes that the broker has sent for it."""


class RangeSource(Protocol):
    """Returns messages by range."""

    def read_range(self, part: QueueRange, fetch: Fetch) -> Generator[RangeChunk]:
        """The messages of a range in order, in chunks; ends early at the readable end.

        Args:
            part: The range to read.
            fetch: The form to fetch.

        Raises:
            ArianeError: The read failed; chunks before it are valid.
        """


class GroupOffsets(Protocol):
    """The offsets of consumer groups."""

    def group_offsets(self, group: str, queues: Collection[MessageQueue]) -> Positions:
        """The consumer offsets of a group; queues without an offset are missing.

        Raises:
            ArianeError: The group's name is illegal, or a broker does not answer.
        """

    def store_group_offsets(self, group: str, positions: Mapping[MessageQueue, int]) -> None:
        """Store consumer offsets of a group, without repeats.

        Raises:
            ArianeError: A broker refused some, or does not answer.
        """


class Cluster(QueueCatalog, RangeSource, GroupOffsets, Protocol):
    """Everything that reading needs."""


Connect: TypeAlias = Callable[[ReadOptions], Cluster]
"""Makes or finds the connection of this process to a cluster."""
