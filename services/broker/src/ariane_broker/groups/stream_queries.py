"""Stream queries that show their progress as the offsets of a group, without being members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ariane_servicekit.errors import field_invalid

ENGINE_LENGTH_MAX: Final = 64
KEPT_MS: Final = 86_400_000
"""How long a query that stores no more is remembered."""
QUERIES_MAX: Final = 10_000
"""The most groups whose queries are remembered."""


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """A query that stored a group's offsets."""

    engine: str
    """The stream processor."""
    address: str
    """Where it ran, as the broker sees it."""
    last_store_ms: int
    """When it last stored offsets."""


class StreamQueries:
    """The last query of each group since the broker started: a running one stores again soon.

    It is remembered beside members, and for a day: a trigger may be due every few hours.
    """

    def __init__(self, *, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._queries: dict[str, StreamQuery] = {}

    def stored(self, consumer_group: str, engine: str, address: str) -> None:
        """Note that a query stored offsets of a group."""
        self._queries.pop(consumer_group, None)
        if len(self._queries) >= QUERIES_MAX:
            del self._queries[next(iter(self._queries))]
        self._queries[consumer_group] = StreamQuery(engine, address, self._now_ms())

    def forget_group(self, consumer_group: str) -> None:
        """Forget the query of a deleted group."""
        self._queries.pop(consumer_group, None)

    def find(self, consumer_group: str) -> StreamQuery | None:
        """The query that stored the group's offsets last; None if none did within a day."""
        query = self._queries.get(consumer_group)
        if query is not None and self._now_ms() - query.last_store_ms > KEPT_MS:
            return None
        return query


def checked_engine(engine: str) -> str:
    """Return the name of a stream processor if it is one.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    if len(engine) > ENGINE_LENGTH_MAX or not engine.isprintable():
        raise field_invalid(
            "stream_engine", f"must be at most {ENGINE_LENGTH_MAX} printable characters"
        )
    return engine
