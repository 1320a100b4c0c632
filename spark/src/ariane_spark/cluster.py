"""What the readers need to know of a cluster, as they see it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ariane_sdk import MessageQueue
from ariane_spark.columns import Detail
from ariane_spark.offsets import Bounds, Positions
from ariane_spark.options import ReadOptions
from ariane_spark.ranges import QueueRange

if TYPE_CHECKING:
    from ariane_record.columns import RecordColumns


class QueueCatalog(Protocol):
    """Which queues topics have, and what is kept of them."""

    def bounds(self, topics: Iterable[str]) -> dict[MessageQueue, Bounds]:
        """The bounds of all readable queues of some topics.

        Raises:
            ArianeError: A topic does not exist, or a broker does not answer.
        """

    def offsets_at(self, topics: Iterable[str], timestamp_ms: int) -> Positions:
        """For each queue the first message stored at or after a time, or else its end.

        Raises:
            ArianeError: A topic does not exist, or a broker does not answer.
        """


class RangeSource(Protocol):
    """Hands out messages by range."""

    def read_range(
        self, part: QueueRange, detail: Detail, chunk_bytes: int
    ) -> Generator[RecordColumns]:
        """The messages of a range in order, in chunks; ends early at the readable end.

        Args:
            part: What to read.
            detail: How much of each message.
            chunk_bytes: About how many bytes one chunk holds.

        Raises:
            ArianeError: Nothing more comes; what came before stands.
        """


class Cluster(QueueCatalog, RangeSource, Protocol):
    """Everything that reading needs."""


Connect: TypeAlias = Callable[[ReadOptions], Cluster]
"""Makes or finds the connection of this process to a cluster."""
