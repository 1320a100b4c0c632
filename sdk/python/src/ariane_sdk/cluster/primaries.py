"""Calls to all primaries of a cluster at the same time."""

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
            errors[0].add_note(f"{done} of {len(brokers)} brokers did it")
        raise errors[0]
