"""The table of delay levels in the format of RocketMQ's ``messageDelayLevel``: ``1s 5s 1m``."""

from __future__ import annotations

import re
from typing import Final

LEVEL_COUNT_MAX: Final = 64
"""Each level has a queue that is read in turn."""

_WAIT_MS_MAX: Final = 10 * 365 * 86_400_000
_WAIT: Final = re.compile(r"([0-9]{1,12})([smhd])")
_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def level_waits_ms(text: str) -> tuple[int, ...]:
    """Parse the delays of all levels, level 1 first.

    Args:
        text: Numbers with a unit of s, m, h or d, separated by blanks.

    Raises:
        ValueError: The text is not such a table; the error has the reason.
    """
    waits_ms = tuple(map(_wait_ms, text.split()))
    if not 1 <= len(waits_ms) <= LEVEL_COUNT_MAX:
        raise ValueError(f"{len(waits_ms)} levels; 1 to {LEVEL_COUNT_MAX} are allowed")
    return waits_ms


def _wait_ms(word: str) -> int:
    found = _WAIT.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r} is no wait such as 30s, 5m, 2h or 1d")
    wait_ms = int(found[1]) * _UNITS_MS[found[2]]
    if not 0 < wait_ms <= _WAIT_MS_MAX:
        raise ValueError(f"{word!r}: a wait is more than nothing, and ten years at most")
    return wait_ms
