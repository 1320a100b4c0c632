"""Suspicions: queues with a message that may kill the consumers of a group.

``config/consumerDeaths.json``, which RocketMQ does not have::

    {"version": 1, "suspicions": [["billing", "orders", 0, 512, 40, 37, 2]]}

Without the file no message is lost, but consumers die as often again until the message is found.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

from ariane_broker.clients.deaths.client_work import GroupQueue
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import at_once

FILE_NAME: Final = "consumerDeaths.json"

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How carefully one queue is delivered to one group after deaths. Ends are exclusive."""

    watched_end: int = 0
    """Before it consumers report the messages in work."""
    alone_end: int = 0
    """Before it they have one message in work at a time, and no other."""
    death_offset: int = -1
    """Queue offset of a message that killed consumers while it was alone in work, and that is not
    sent back, because the group consumes in order; -1: none."""
    death_count: int = 0
    """Number of these deaths."""

    def deaths_of(self, queue_offset: int) -> int:
        """The number of deaths by a message that stays in its place."""
        return self.death_count if queue_offset == self.death_offset else 0


NO_SUSPICION: Final = Suspicion()


class Suspicions:
    """All suspicions, by group and queue."""

    def __init__(self) -> None:
        """Start without suspicions."""
        self._suspicions: dict[GroupQueue, Suspicion] = {}

    def find(self, place: GroupQueue) -> Suspicion:
        """The suspicion of a queue; may be ``NO_SUSPICION``."""
        return self._suspicions.get(place, NO_SUSPICION)

    def put(self, place: GroupQueue, suspicion: Suspicion) -> None:
        """Set the suspicion of a queue, or remove it."""
        if suspicion == NO_SUSPICION:
            self._suspicions.pop(place, None)
        else:
            self._suspicions[place] = suspicion

    def passed(self, place: GroupQueue, consumer_offset: int) -> bool:
        """Forget a suspicion that the group has passed; return whether there was one."""
        known = self._suspicions.get(place)
        if known is None or consumer_offset < max(known.watched_end, known.alone_end):
            return False
        del self._suspicions[place]
        return True

    def set_back(self, end_of: Callable[[QueueKey], int]) -> bool:
        """Forget suspicions of messages that were lost; return whether there were any.

        The next messages get their queue offsets, and have killed no consumer.

        Args:
            end_of: The next queue offset of a queue.
        """
        changed = False
        for place, known in list(self._suspicions.items()):
            end = end_of(place.queue)
            if max(known.watched_end, known.alone_end, known.death_offset + 1) <= end:
                continue
            dead = known.death_offset >= end
            kept = Suspicion(
                min(known.watched_end, end),
                min(known.alone_end, end),
                -1 if dead else known.death_offset,
                0 if dead else known.death_count,
            )
            self.put(place, kept)
            changed = True
        return changed

    def remove_group(self, consumer_group: str) -> Iterator[bool | None]:
        """Forget a group; yields once for each suspicion examined: True if it was forgotten."""
        return self._remove(lambda place: place.consumer_group == consumer_group)

    def remove_topics(self, topics: Container[str]) -> Iterator[bool | None]:
        """Forget some topics in all groups; yields as ``remove_group``."""
        return self._remove(lambda place: place.queue.topic in topics)

    def document(self) -> dict[str, Any]:
        """The present contents of the file."""
        (document,) = at_once(self.documented())
        return document

    def documented(self) -> Iterator[dict[str, Any] | None]:
        """The present contents of the file; yields once for each suspicion before."""
        rows: list[list[Any]] = []
        for place, suspicion in list(self._suspicions.items()):
            yield None
            rows.append([place.consumer_group, *place.queue, *astuple(suspicion)])
        yield {"version": _VERSION, "suspicions": rows}

    def load(self, document: Mapping[str, Any]) -> None:
        """Restore the contents of a file.

        Raises:
            KeyError, TypeError, ValueError: The file has another shape.
        """
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']} is not known here")
        self._suspicions = {
            GroupQueue(str(group), QueueKey(str(topic), int(queue_id))): Suspicion(
                int(watched_end), int(alone_end), int(death_offset), int(death_count)
            )
            for group, topic, queue_id, watched_end, alone_end, death_offset, death_count in (
                document["suspicions"]
            )
        }

    def _remove(self, is_gone: Callable[[GroupQueue], bool]) -> Iterator[bool | None]:
        for place in list(self._suspicions):
            known = is_gone(place) and self._suspicions.pop(place, None) is not None
            yield True if known else None
