"""The queues that a query reads: of named topics, of topics by a pattern, or given queues.

Topics and queues are created and deleted while a stream runs, so a selection is evaluated anew each
time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ariane_sdk import MessageQueue
from ariane_spark.errors import QueueNotFound
from ariane_spark.positions.offsets import Bounds
from ariane_spark.positions.queue_catalog import QueueCatalog


@dataclass(frozen=True, slots=True)
class NamedTopics:
    """All queues of some topics."""

    topics: tuple[str, ...]

    def admits(self, topic: str) -> bool:
        """Whether the selection may contain queues of a topic."""
        return topic in self.topics

    def selects(self, queue: MessageQueue) -> bool:
        """Whether the selection contains a queue."""
        return self.admits(queue.topic)

    def bounds(
        self, catalog: QueueCatalog, *, lenient: bool = False, waits: bool = True
    ) -> dict[MessageQueue, Bounds]:
        """The kept ranges of the queues that exist now.

        Args:
            catalog: The source of topics and ranges.
            lenient: Whether topics may be missing.
            waits: Whether a topic whose brokers are all away is waited for, unless it may be
                missing.

        Raises:
            ArianeError: A topic does not exist, or a broker does not answer.
        """
        return catalog.bounds(self.topics, lenient=lenient, waits=waits)

    def check_found(self, found: Mapping[MessageQueue, Bounds]) -> None:
        """Do nothing: a missing topic is an error already."""


@dataclass(frozen=True)
class TopicPattern:
    """All queues of the topics whose whole name matches a regular expression."""

    pattern: str

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def admits(self, topic: str) -> bool:
        """Whether the selection may contain queues of a topic."""
        return self._compiled.fullmatch(topic) is not None

    def selects(self, queue: MessageQueue) -> bool:
        """Whether the selection contains a queue."""
        return self.admits(queue.topic)

    def bounds(
        self,
        catalog: QueueCatalog,
        *,
        lenient: bool = False,  # noqa: ARG002 - as its siblings have it.
        waits: bool = True,  # noqa: ARG002
    ) -> dict[MessageQueue, Bounds]:
        """The bounds of all queues that exist now; in a running stream there may be none.

        Args:
            catalog: The source of topics and ranges.
            lenient: Not used: a topic may always have been deleted since it was listed.
            waits: Not used: so none is waited for.

        Raises:
            ArianeError: No name server or broker answers.
        """
        return catalog.bounds(filter(self.admits, catalog.topics()), lenient=True)

    def check_found(self, found: Mapping[MessageQueue, Bounds]) -> None:
        """Check that some topic matches when a read begins.

        Raises:
            QueueNotFound: No topic matches, which is probably a typing error.
        """
        if not found:
            raise QueueNotFound(f"no topic matches {self.pattern!r}, the option 'topicsPattern'")


@dataclass(frozen=True, slots=True)
class AssignedQueues:
    """Given queues."""

    queues: frozenset[MessageQueue]

    def admits(self, topic: str) -> bool:
        """Whether the selection may contain queues of a topic."""
        return any(queue.topic == topic for queue in self.queues)

    def selects(self, queue: MessageQueue) -> bool:
        """Whether the selection contains a queue."""
        return queue in self.queues

    def bounds(
        self, catalog: QueueCatalog, *, lenient: bool = False, waits: bool = True
    ) -> dict[MessageQueue, Bounds]:
        """The kept ranges of the queues that exist now.

        Args:
            catalog: The source of topics and ranges.
            lenient: Whether topics may be missing.
            waits: Whether a topic whose brokers are all away is waited for, unless it may be
                missing.

        Raises:
            ArianeError: A topic does not exist, or a broker does not answer.
        """
        topics = sorted({queue.topic for queue in self.queues})
        found = catalog.bounds(topics, lenient=lenient, waits=waits)
        return {queue: kept for queue, kept in found.items() if queue in self.queues}

    def check_found(self, found: Mapping[MessageQueue, Bounds]) -> None:
        """Check that all queues exist when a read begins.

        Raises:
            QueueNotFound: No broker has one of them.
        """
        missing = sorted(self.queues - found.keys())
        if missing:
            raise QueueNotFound(
                f"the option 'assign' names {', '.join(map(str, missing))}, which no broker carries"
            )


QueueSelection: TypeAlias = NamedTopics | TopicPattern | AssignedQueues
"""The queues that a query reads."""
