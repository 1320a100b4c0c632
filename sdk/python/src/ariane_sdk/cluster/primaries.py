"""Calls to all primaries of a cluster at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

from ariane_record.counted import counted
from ariane_sdk.errors import CallError, ServiceUnavailable, TopicExists
from ariane_sdk.routing.failover import Failover
from ariane_sdk.routing.live_broker import LiveBroker
from ariane_sdk.routing.route import PRIMARY_ID

NO_PRIMARY: Final = "NO_PRIMARY"
"""A broker has no primary now."""


async def at_every_primary(
    primaries: Iterable[LiveBroker],
    act: Callable[[LiveBroker], Awaitable[None]],
    names: Collection[str] = (),
) -> None:
    """Call ``act`` for every primary at the same time; then raise the first error.

    Args:
        primaries: All live primaries.
        act: The function to call with one.
        names: Only these brokers; all if empty.

    Raises:
        ServiceUnavailable: There is no primary.
        CallError: A call failed; a note of the error gives the number of successful calls.
    """
    brokers = [each for each in primaries if not names or each.broker_name in names]
    if not brokers:
        raise ServiceUnavailable(
            f"no broker {' or '.join(sorted(names))}".rstrip()
            + " is registered with the name servers",
            reason="NO_BROKER",
            retriable=True,
        )
    failures = await asyncio.gather(*map(act, brokers), return_exceptions=True)
    errors = [failure for failure in failures if failure is not None]
    # A failure is more useful to the caller than "exists already".
    errors.sort(key=lambda error: isinstance(error, TopicExists))
    if errors:
        if isinstance(errors[0], CallError) and len(brokers) > 1:
            done = len(brokers) - len(errors)
            errors[0].add_note(f"{done} of {counted(len(brokers), 'broker')} did it")
        raise errors[0]


class PresentPrimaries:
    """Calls that are harmless to repeat, to the primaries that there are by then."""

    def __init__(
        self,
        list_brokers: Callable[[], Awaitable[Sequence[LiveBroker]]],
        failover: Failover,
        patience_s: float,
    ) -> None:
        """``list_brokers`` returns all live brokers, replicas among them."""
        self._list_brokers = list_brokers
        self._failover = failover
        self._patience_s = patience_s

    async def call(
        self,
        act: Callable[[LiveBroker], Awaitable[None]],
        names: Collection[str],
        *,
        reads: bool,
    ) -> None:
        """As ``at_every_primary``; a call that fails goes to the next primary of its broker.

        Brokers without a live primary may be about to have one, and are waited for: those with
        names, those with live replicas, and any where none lives.
        """

        async def act_again(broker: LiveBroker) -> None:
            async def once() -> None:
                nonlocal broker
                try:
                    await act(broker)
                except CallError:
                    live = _primaries_of(await self._list_brokers())
                    same = (each for each in live if each.broker_name == broker.broker_name)
                    broker = next(same, broker)
                    raise

            await self._failover.ask(once, patience_s=self._patience_s, reads=reads)

        await at_every_primary(await self._led(names), act_again, names)

    async def _led(self, names: Collection[str]) -> list[LiveBroker]:
        primaries: list[LiveBroker] = []

        async def once() -> None:
            live = await self._list_brokers()
            primaries[:] = _primaries_of(live)
            led = {each.broker_name for each in primaries}
            wanted = set(names) or {each.broker_name for each in live}
            if not wanted or wanted - led:
                text = f"no primary now: {', '.join(sorted(wanted - led)) or 'no broker lives'}"
                raise ServiceUnavailable(text, reason=NO_PRIMARY, retriable=True)

        try:
            await self._failover.ask(once, patience_s=self._patience_s, reads=True)
        except ServiceUnavailable as error:
            if error.reason != NO_PRIMARY:
                raise
        return primaries


def _primaries_of(brokers: Iterable[LiveBroker]) -> list[LiveBroker]:
    return [each for each in brokers if each.broker_id == PRIMARY_ID]
