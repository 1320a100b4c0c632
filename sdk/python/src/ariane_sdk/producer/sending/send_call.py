"""One call to a broker with batches of a producer, from when it leaves until all is seen to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ariane_sdk.producer.batches.send_batch import SendBatch


class SendCall(NamedTuple):
    """One call to a broker.

    Attributes:
        broker_name: The broker.
        address: Where it is, or nothing when nobody knows.
        peer: Both, for the text of errors.
        batches: What travels; of a bundle, once it is taken apart.
        begun_s: When it left, by the monotonic clock.
        over: Is to be told when nothing is left to be done about it.
    """

    broker_name: str
    address: str
    peer: str
    batches: Sequence[SendBatch]
    begun_s: float
    over: Callable[[], None]

    @property
    def is_lone(self) -> bool:
        """Whether one message travels by itself."""
        return len(self.batches) == 1 and self.batches[0].count == 1
