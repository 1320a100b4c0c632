"""The promises of a primary's acknowledgements; a primary whose lease is over keeps none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ariane_broker.errors.replication import replication_unconfirmed
from ariane_broker.log.offset_waits import OnDone
from ariane_broker.log.promise import AcknowledgedLevel, Condition, Promise
from ariane_servicekit.errors import ServiceError


class ReplicatedPromise(Promise):
    """Kept once all brokers in sync have the record; REPLICATED if one of them is a replica."""

    def __init__(
        self,
        own: Sequence[Condition],
        when_confirmed: Callable[[int, OnDone], None],
        has_copies: Callable[[], bool],
    ) -> None:
        """``own`` are the conditions of the primary's own disk."""
        super().__init__((*own, Condition(AcknowledgedLevel.REPLICATED, when_confirmed)))
        self._own_level = own[-1].level if own else AcknowledgedLevel.MEMORY
        self._has_copies = has_copies

    @property
    def level(self) -> AcknowledgedLevel:
        """The level reached once all conditions hold."""
        return AcknowledgedLevel.REPLICATED if self._has_copies() else self._own_level


def by_enough(
    when_confirmed: Callable[[int, OnDone], None], are_enough: Callable[[], bool]
) -> Callable[[int, OnDone], None]:
    """A confirmation that counts only if enough brokers are in sync when it arrives.

    Enough were in sync when the message was accepted; brokers that left since may not have it.
    """

    def when(end: int, on_done: OnDone) -> None:
        def checked(error: ServiceError | None) -> None:
            on_done(error if error is not None or are_enough() else replication_unconfirmed())

        when_confirmed(end, checked)

    return when


def fenced(conditions: Sequence[Condition], holds: Callable[[], bool]) -> tuple[Condition, ...]:
    """Conditions that fail on a primary whose lease is over."""

    def fence(condition: Condition) -> Condition:
        def when(end: int, on_done: OnDone) -> None:
            def checked(error: ServiceError | None) -> None:
                on_done(error if error is not None or holds() else replication_unconfirmed())

            condition.when(end, checked)

        return Condition(condition.level, when)

    return tuple(map(fence, conditions))
