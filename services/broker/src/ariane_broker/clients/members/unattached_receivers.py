"""What clients receive that are not attached: generated ones need no stream to receive.

Of each group and topic, one filter is in force at a time: that of the first who received, until
nobody has for a while. Whoever agrees keeps it in force; whoever differs is refused, because each
would have the other's messages settled unseen.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ariane_broker.filters.expression import FilterExpression
from ariane_record.names import retry_topic


class FilterInForce(NamedTuple):
    """The filter of a group and topic that all who receive must share."""

    client_id: str
    """Who received first with it; may be empty."""
    expression: FilterExpression
    """The filter."""
    until: float
    """When it ends, by the monotonic clock."""
    is_shared: bool = False
    """Whether somebody else has received with it, too."""


class UnattachedReceivers:
    """The filters in force, by group and topic."""

    def __init__(self, *, monotonic: Callable[[], float], silence_seconds: float) -> None:
        """A filter ends when nobody has received with it for ``silence_seconds``."""
        self._monotonic = monotonic
        self._silence_seconds = silence_seconds
        self._in_force: OrderedDict[tuple[str, str], FilterInForce] = OrderedDict()
        self._of_client: dict[str, set[tuple[str, str]]] = {}

    def differing(
        self, consumer_group: str, filters: Mapping[str, FilterExpression]
    ) -> Iterator[tuple[str, FilterInForce]]:
        """The topics in which others are in force than these filters."""
        now = self._monotonic()
        for topic in sorted(filters):
            known = self._in_force.get((consumer_group, topic))
            if known is None or known.until < now or topic == retry_topic(consumer_group):
                continue
            if known.expression.meaning() != filters[topic].meaning():
                yield topic, known

    def note(
        self,
        consumer_group: str,
        client_id: str,
        filters: Mapping[str, FilterExpression],
        hold_seconds: float,
    ) -> None:
        """Note a call that agrees, and may be held for so long."""
        now = self._monotonic()
        until = now + hold_seconds + self._silence_seconds
        for topic, expression in filters.items():
            key = (consumer_group, topic)
            known = self._in_force.get(key)
            if known is None or known.until < now:
                self._drop(key)
                known = FilterInForce(client_id, expression, until)
                self._of_client.setdefault(client_id, set()).add(key)
            is_shared = known.is_shared or client_id != known.client_id
            self._in_force[key] = known._replace(until=max(until, known.until), is_shared=is_shared)
            self._in_force.move_to_end(key)
        while self._in_force and next(iter(self._in_force.values())).until < now:
            self._drop(next(iter(self._in_force)))

    def forget(self, client_id: str) -> None:
        """Note that a client has left: what only it wanted is not in force any more."""
        for key in list(self._of_client.get(client_id, ())):
            if not self._in_force[key].is_shared:
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        known = self._in_force.pop(key, None)
        if known is None:
            return
        keys = self._of_client[known.client_id]
        keys.remove(key)
        if not keys:
            del self._of_client[known.client_id]
