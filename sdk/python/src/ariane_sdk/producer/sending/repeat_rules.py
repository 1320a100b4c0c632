"""After which errors a batch is sent again, and which of those repeats are counted."""

from __future__ import annotations

from typing import Final

from ariane_sdk.errors import CallError
from ariane_sdk.net.status import ROUTING_REASONS
from ariane_sdk.producer.batches.grouped_batch import GroupedBatch
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.routing.routes import Routes

REPEATED_REASONS: Final = ROUTING_REASONS | {"DEADLINE_PASSED"}
"""Nothing was stored, and another broker, or the same with a fresh route, may do better."""

COUNTED_REASONS: Final = ROUTING_REASONS - {"BROKER_NOT_PRIMARY"} | {"SEQUENCE_GAP"}
"""Repeats after these are few: if one changes nothing, many will not."""

GONE_REASONS: Final = frozenset({"QUEUE_NOT_FOUND", "TOPIC_NOT_WRITABLE"})
"""Nobody can write to the queue any more."""

UNCONFIRMED_REASONS: Final = frozenset({"FLUSH_UNCONFIRMED", "REPLICATION_UNCONFIRMED"})
"""It is stored, and a repeat under the same numbers tells how safely."""

SEQUENCE_GAP: Final = "SEQUENCE_GAP"


class RepeatRules:
    """Those of one producer."""

    def __init__(self, routes: Routes, *, repeats_max: int, sequenced: bool) -> None:
        """Take what they depend on.

        Args:
            routes: Where queues are.
            repeats_max: How often a batch is repeated after errors that are counted.
            sequenced: Whether a batch that may be stored is repeated under numbers.
        """
        self._routes = routes
        self._repeats_max = repeats_max
        self._sequenced = sequenced

    def may_repeat(self, batch: SendBatch, error: CallError) -> bool:
        """Whether a batch is sent again after an error, as long as it has time."""
        may = error.retriable or error.reason in REPEATED_REASONS
        if self._sequenced:
            may |= error.reason in UNCONFIRMED_REASONS
            may |= error.reason == SEQUENCE_GAP and not batch.maybe_stored
        return may and (not self.is_counted(batch, error) or batch.repeat_count < self._repeats_max)

    def is_counted(self, batch: SendBatch, error: CallError) -> bool:
        """Whether repeats after this error are few: they store twice, or they change nothing."""
        if error.reason in GONE_REASONS and (batch.movable or isinstance(batch, GroupedBatch)):
            route = self._routes.cached(batch.topic)
            if route is not None and batch.queue in route.write_queues:
                return False  # The route will change, and the batch go where that says.
        if error.outcome_unknown and not self._sequenced:
            return True
        if error.reason in ROUTING_REASONS and self._routes.is_asking(batch.topic):
            return False  # It may change something, once name servers have answered.
        return error.reason in COUNTED_REASONS

    def is_surely_missing(self, error: CallError, age_s: float) -> bool:
        """Whether the broker says that no call has stored a batch.

        Args:
            error: What it says of the batch.
            age_s: Since when it may have been sent.
        """
        if error.reason != SEQUENCE_GAP:
            return False
        if int(error.metadata.get("expected", 0)):
            return True  # The broker knows the stream, and the batch is not in it.
        # A stream that is not known has stored nothing for so long. A second is for clocks that
        # do not run alike.
        return age_s + 1.0 < int(error.metadata.get("known_for_ms", 0)) / 1000
