"""What waits for messages in queues, and is notified when they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from ariane_broker.queue_key import QueueKey

NOTIFIED_MAX: Final = 512
"""Watches that are notified in one turn of the loop, a microsecond each; thousands may watch."""


class Watcher(Protocol):
    """What waits for messages in queues."""

    def notify(self, queue: QueueKey) -> None:
        """Messages arrived that matter."""
        ...


def notify_all(watches: Sequence[Watcher], queue: QueueKey) -> None:
    """Notify watches of a queue, the first ones at once, the others in the next turns."""
    for watch in watches[:NOTIFIED_MAX]:
        watch.notify(queue)
    if len(watches) > NOTIFIED_MAX:
        asyncio.get_running_loop().call_soon(notify_all, watches[NOTIFIED_MAX:], queue)
