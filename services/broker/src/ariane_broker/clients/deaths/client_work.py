"""What one client has been handed out, as far as a broker can know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ariane_broker.queue_key import QueueKey


class GroupQueue(NamedTuple):
    """One queue to one group."""

    consumer_group: str
    queue: QueueKey


@dataclass(slots=True)
class ClientWork:
    """What a client has in work.

    Attributes:
        pulled_ends: Behind the last message that it was given of each queue.
        told_ends: Behind the last message that it says it has in work, where it says so.
        alone: The message that it says it has in work with nothing else: where, and its queue
            offset. None when it says no such thing.
    """

    pulled_ends: dict[GroupQueue, int] = field(default_factory=dict)
    told_ends: dict[GroupQueue, int] = field(default_factory=dict)
    alone: tuple[GroupQueue, int] | None = None

    def tell(
        self, place: GroupQueue, consumer_offset: int, in_work_end: int | None, *, alone: bool
    ) -> None:
        """Take over what the client says of a queue.

        Args:
            place: The queue.
            consumer_offset: The smallest queue offset that is unfinished.
            in_work_end: Behind the last message that is in work; None when it does not say.
            alone: Whether that is one message, and nothing else of any queue is in work.
        """
        if self.alone is not None and self.alone[0] == place:
            passed = consumer_offset > self.alone[1]
            if passed or in_work_end is not None:
                self.alone = None
        end = max(self.told_ends.get(place, 0), in_work_end or 0)
        if alone:
            self.alone = (place, consumer_offset)
            self.told_ends.pop(place, None)
        elif end > consumer_offset and in_work_end != consumer_offset:
            self.told_ends[place] = end
        else:
            self.told_ends.pop(place, None)
