"""All primaries of a cluster, asked at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

from ariane_sdk.errors import CallError, ServiceUnavailable, TopicExists
from ariane_sdk.routing.live_broker import LiveBroker


async def at_every_primary(
    primaries: Iterable[LiveBroker],
    act: Callable[[LiveBroker], Awaitable[None]],
    names: Collection[str] = (),
) -> None:
    """Do something with every primary at the same time; the first error is raised last.

    Args:
        primaries: All that live.
        act: What to do with one.
        names: Only with these brokers; with all if empty.

    Raises:
        ServiceUnavailable: There is none.
        CallError: One failed; its note says at how many brokers it was done.
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
    # What went wrong tells more than that something stood there already.
    errors.sort(key=lambda error: isinstance(error, TopicExists))
    if errors:
        if isinstance(errors[0], CallError) and len(brokers) > 1:
            done = len(brokers) - len(errors)
            errors[0].add_note(f"{done} of {len(brokers)} brokers did it")
        raise errors[0]
