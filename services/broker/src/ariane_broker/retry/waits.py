"""The wait of a failed message before its next try, by the policy of its group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ariane_broker.delay.delay import Delay
from ariane_broker.groups.consumer_groups import ExponentialRetry, TableRetry

FIRST_LEVEL: Final = 3
"""The delay level of the first repetition: 10 s."""


def wait_ms(policy: TableRetry | ExponentialRetry, attempts: int) -> int | None:
    """The wait before the next try; None for that of a delay level.

    Args:
        policy: The group's policy.
        attempts: Tries before the one that failed now.
    """
    if isinstance(policy, ExponentialRetry):
        try:
            grown = policy.initial_ms * policy.multiplier**attempts
        except OverflowError:
            return policy.max_ms
        return round(min(grown, policy.max_ms))
    if not policy.delays_ms:
        return None
    return policy.delays_ms[min(attempts, len(policy.delays_ms) - 1)]


def delay_of_try(
    span_ms: int | None,
    attempts: int,
    *,
    now_ms: int,
    delay_ms_max: int,
    levels_ms: Sequence[int],
    is_clock_doubted: bool,
) -> Delay:
    """When the next try is due.

    Args:
        span_ms: How long to wait; None: as long as the delay level of the try.
        attempts: Tries before the one that failed now.
        now_ms: Milliseconds since the epoch.
        delay_ms_max: The longest wait that the broker offers.
        levels_ms: How long each delay level waits, level 1 first.
        is_clock_doubted: Whether the clock may be far ahead. A time by it would be too late once it
            is right again, so the next longer level is taken, if there is one: levels bound waits.
    """
    if span_ms is None:
        return Delay(min(FIRST_LEVEL + attempts, len(levels_ms)))
    longer = [level_ms for level_ms in levels_ms if level_ms >= span_ms]
    if is_clock_doubted and longer:
        return Delay(levels_ms.index(min(longer)) + 1)
    due_ms = now_ms + min(span_ms, delay_ms_max)
    return Delay(times_ms=np.array([due_ms], np.int64))
