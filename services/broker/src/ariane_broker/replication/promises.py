"""What an acknowledgement of a primary promises, and that nobody is promised anything too late."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ariane_broker.errors.replication import replication_unconfirmed
from ariane_broker.log.offset_waits import OnDone
from ariane_broker.log.promise import AcknowledgedLevel, Condition, Promise
from ariane_servicekit.errors import ServiceError


class ReplicatedPromise(Promise):
    """Kept once all in sync have what was appended; says so while there is more than one."""

    def __init__(
        self,
        own: Sequence[Condition],
        when_confirmed: Callable[[int, OnDone], None],
        has_copies: Callable[[], bool],
    ) -> None:
        """Take the parts.

        Args:
            own: What is promised of the primary's own disk.
            when_confirmed: Calls back once all in sync have it.
            has_copies: Whether anybody beside the primary is in sync.
        """
        super().__init__((*own, Condition(AcknowledgedLevel.REPLICATED, when_confirmed)))
        self._own_level = own[-1].level if own else AcknowledgedLevel.MEMORY
        self._has_copies = has_copies

    @property
    def level(self) -> AcknowledgedLevel:
        """What is reached once all conditions hold."""
        return AcknowledgedLevel.REPLICATED if self._has_copies() else self._own_level


def by_enough(
    when_confirmed: Callable[[int, OnDone], None], are_enough: Callable[[], bool]
) -> Callable[[int, OnDone], None]:
    """A confirmation that counts only if enough brokers are in sync when it comes.

    They were so when the message was taken; those that left the set since may not have it.
    """

    def when(end: int, on_done: OnDone) -> None:
        def checked(error: ServiceError | None) -> None:
            on_done(error if error is not None or are_enough() else replication_unconfirmed())

        when_confirmed(end, checked)

    return when


def fenced(conditions: Sequence[Condition], holds: Callable[[], bool]) -> tuple[Condition, ...]:
    """Conditions that are not told as true by a primary whose lease is over."""

    def fence(condition: Condition) -> Condition:
        def when(end: int, on_done: OnDone) -> None:
            def checked(error: ServiceError | None) -> None:
                on_done(error if error is not None or holds() else replication_unconfirmed())

            condition.when(end, checked)

        return Condition(condition.level, when)

    return tuple(map(fence, conditions))
