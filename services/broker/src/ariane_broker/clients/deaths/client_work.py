"""The messages that one client has in work, as far as a broker can know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ariane_broker.queue_key import QueueKey


class GroupQueue(NamedTuple):
    """A queue in a consumer group."""

    consumer_group: str
    queue: QueueKey


@dataclass(slots=True)
class ClientWork:
    """The messages that a client has in work."""

    pulled_ends: dict[GroupQueue, int] = field(default_factory=dict)
    """Queue offset behind the last message that it was given of each queue."""
    reported_ends: dict[GroupQueue, int] = field(default_factory=dict)
    """Queue offset behind the last message that it reports to be in work."""
    alone: tuple[GroupQueue, int] | None = None
    """Queue and queue offset of the message that it reports to be in work alone; None without such
    a report."""

    def report(
        self, place: GroupQueue, consumer_offset: int, in_work_end: int | None, *, alone: bool
    ) -> None:
        """Apply the client's report on a queue.

        Args:
            place: The queue.
            consumer_offset: The smallest unfinished queue offset.
            in_work_end: Queue offset behind the last message in work; None if not reported.
            alone: Whether that is one message, and no message of another queue is in work.
        """
        if self.alone is not None and self.alone[0] == place:
            passed = consumer_offset > self.alone[1]
            if passed or in_work_end is not None:
                self.alone = None
        end = max(self.reported_ends.get(place, 0), in_work_end or 0)
        if alone:
            self.alone = (place, consumer_offset)
            self.reported_ends.pop(place, None)
        elif end > consumer_offset and in_work_end != consumer_offset:
            self.reported_ends[place] = end
        else:
            self.reported_ends.pop(place, None)
