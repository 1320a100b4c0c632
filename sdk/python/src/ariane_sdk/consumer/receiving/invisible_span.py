"""The invisible times that brokers accept."""

from __future__ import annotations

from typing import Final

from ariane_sdk.errors import IllegalArgument

INVISIBLE_S_MAX: Final = 12 * 3600.0


def check_span(name: str, seconds: object, *, least_s: float = 0.0) -> None:
    """Refuse a duration that brokers would refuse.

    Raises:
        IllegalArgument: It is no such duration.
    """
    if not isinstance(seconds, int | float) or not least_s <= seconds <= INVISIBLE_S_MAX:
        raise IllegalArgument(f"{name} {seconds!r:.100}: {least_s:g} s to 12 h is expected")
