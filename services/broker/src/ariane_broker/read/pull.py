"""Pulling: records of many queues in one call, held until there are some.

::

    rpc  ->  PullRecords.open  ->  OpenPull.answer  ->  QueueLooks.look  ->  the store
             checks the order      looks, or waits      reads each queue
                                   for what comes       within the budget
"""

from __future__ import annotations

from collections.abc import Callable

from ariane_broker.filters.filter import filter_for
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.read.open_pull import OpenPull
from ariane_broker.read.pull_order import PullOrder, checked_order
from ariane_broker.read.queue_looks import QueueLooks
from ariane_servicekit import AnswerLease


class PullRecords:
    """Begins pulls."""

    def __init__(
        self, looks: QueueLooks, held: HeldRequests, *, monotonic: Callable[[], float]
    ) -> None:
        """Read by these looks, and hold there what finds nothing."""
        self._looks = looks
        self._held = held
        self._monotonic = monotonic

    def open(self, order: PullOrder, lease: AnswerLease) -> OpenPull:
        """Begin a pull, which may have several answers.

        Args:
            order: What is wanted.
            lease: Room for the answers; who sends them releases it.

        Raises:
            ServiceError: FIELD_INVALID or FILTER_EXPRESSION_INVALID.
        """
        order = checked_order(order)
        filters = {
            topic: filter_for(expression, exact=order.exact)
            for topic, expression in order.filters.items()
            if not (order.uploaded_filters_follow and expression.is_uploaded)
        }
        return OpenPull(self._looks, self._held, order, filters, lease, monotonic=self._monotonic)
