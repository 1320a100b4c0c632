"""Telling those who watch a queue that there is something for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from ariane_broker.queue_key import QueueKey

TOLD_MAX: Final = 512
"""Watches that are notified in one turn of the loop, a microsecond each; thousands may watch."""


class Watcher(Protocol):
    """What waits for messages in queues."""

    def notify(self, queue: QueueKey) -> None:
        """Messages arrived that matter."""
        ...


def tell(watches: Sequence[Watcher], queue: QueueKey) -> None:
    """Notify watches of a queue, the first ones at once, the others in the next turns."""
    for watch in watches[:TOLD_MAX]:
        watch.notify(queue)
    if len(watches) > TOLD_MAX:
        asyncio.get_running_loop().call_soon(tell, watches[TOLD_MAX:], queue)
