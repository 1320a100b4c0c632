"""What must be true of receiving, whatever happens."""

from __future__ import annotations

from ariane_broker.queue_key import QueueKey
from ariane_broker.retry.failures import ReturnOutcome
from ariane_broker.retry.return_table import Returned

GONE = Returned("", 0, dead_letter=True, due_ms=0, commit_log_offset=0)


class Buried:
    """Takes dead letters, and remembers which."""

    def __init__(self, dead):
        self.dead = dead

    async def take_back(self, failure, places):
        for place in places:
            key = (QueueKey(failure.topic, failure.queue_id), place.queue_offset)
            assert failure.local_attempts + 1 == self.dead.attempts[key] or self.dead.unsure
            self.dead.settle(key)
        return [ReturnOutcome(GONE, duplicate=False)] * len(places)


class Model:
    """What must be true."""

    def __init__(self):
        self.sent = {}
        """Message group of each message that is wanted, by queue and offset."""
        self.settled = set()
        self.held = {}
        """Serial and end of time of each that somebody has in hand or that waits; 0 waits."""
        self.attempts = {}
        self.unsure = False

    def settle(self, key):
        self.settled.add(key)
        self.held.pop(key, None)

    def open(self, now_ms):
        """Unsettled messages that nobody has in hand."""
        return {
            key
            for key in self.sent
            if key not in self.settled and self.held.get(key, (0, 0))[1] <= now_ms
        }
