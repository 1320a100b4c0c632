"""The information about a cluster that is needed to choose queues."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Protocol

from ariane_sdk import MessageQueue
from ariane_spark.positions.offsets import Bounds, Positions


class QueueCatalog(Protocol):
    """The queues of topics, and their kept ranges."""

    def topics(self) -> list[str]:
        """The names of all topics, except topics of the system.

        Raises:
            ArianeError: No name server or broker answers.
        """

    def uncertain_topics(self) -> Container[str]:
        """Used topics that may have more queues than known so far.

        Name servers that have just started do not know all brokers yet, and while none answers,
        routes may be old.
        """

    def away_brokers(self, topic: str) -> frozenset[str]:
        """Names of brokers with queues of a used topic that left within a day, and may come back.

        Raises:
            ArianeError: No name server answers.
        """

    def bounds(
        self, topics: Iterable[str], *, lenient: bool = False, waits: bool = True
    ) -> dict[MessageQueue, Bounds]:
        """The bounds of all readable queues of some topics.

        Args:
            topics: The topics.
            lenient: Whether topics may be missing.
            waits: Whether a topic whose brokers are all away is waited for, unless it may be
                missing.

        Raises:
            ArianeError: A topic does not exist, or a broker does not answer.
        """

    def offsets_at(self, topics: Iterable[str], timestamp_ms: int) -> Positions:
        """For each queue the first message stored at or after a time, or else its end.

        Raises:
            ArianeError: A topic does not exist, or a broker does not answer.
        """
