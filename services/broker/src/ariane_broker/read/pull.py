"""Pulls: one call reads many queues, and is held until there are messages.

::

    rpc  ->  PullRecords.open  ->  OpenPull.answer  ->  QueueLooks.look  ->  the store
             checks the order      looks, or waits      reads each queue
                                   for arrivals         within the budget
"""

from __future__ import annotations

from collections.abc import Callable

from ariane_broker.filters.filter import filter_for
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.read.open_pull import OpenPull
from ariane_broker.read.pull_order import PullOrder, checked_order
from ariane_broker.read.queue_looks import QueueLooks
from ariane_record.names import REPLY_SUFFIX
from ariane_servicekit import AnswerLease


class PullRecords:
    """Opens pulls."""

    def __init__(
        self, looks: QueueLooks, held: HeldRequests, *, monotonic: Callable[[], float]
    ) -> None:
        self._looks = looks
        self._held = held
        self._monotonic = monotonic

    def open(self, order: PullOrder, lease: AnswerLease) -> OpenPull:
        """Open a pull, which may have several answers.

        Args:
            order: The consumer's order.
            lease: Memory for the answers; their sender releases it.

        Raises:
            ServiceError: FIELD_INVALID or FILTER_EXPRESSION_INVALID.
        """
        order = checked_order(order)
        filters = {
            # A reader of replies has a right on those with its own tag, not with its hash.
            topic: filter_for(expression, exact=order.exact or topic.endswith(REPLY_SUFFIX))
            for topic, expression in order.filters.items()
            if not (order.uploaded_filters_follow and expression.is_uploaded)
        }
        return OpenPull(self._looks, self._held, order, filters, lease, monotonic=self._monotonic)
