"""Options for start positions and times: ``--from``, ``--until``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import click

from ariane_admin.times import length_of_time

_EXAMPLE: Final = "2026-01-31T10:00:00Z"
_LIKE: Final = f"time like {_EXAMPLE} or -2h"

StartPosition: TypeAlias = Literal["earliest", "latest"] | datetime


class StartPositionType(click.ParamType[StartPosition]):
    """``earliest``, ``latest``, a time with its zone, or how long ago, such as ``-2h``."""

    name = "earliest|latest|TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> StartPosition:
        """Read the option."""
        if isinstance(value, datetime):
            return value
        # Help shows the words in capitals.
        word = str(value).lower()
        if word == "earliest":
            return "earliest"
        if word == "latest":
            return "latest"
        return _moment(self, value, f"neither earliest, latest nor a {_LIKE}", param, ctx)


class MomentType(click.ParamType[datetime]):
    """A time with its zone, or how long ago, such as ``-2h``."""

    name = "TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read the option."""
        return (
            value
            if isinstance(value, datetime)
            else _moment(self, value, f"no {_LIKE}", param, ctx)
        )


def _moment(
    kind: click.ParamType[Any],
    value: object,
    wrong: str,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> datetime:
    text = str(value)
    ago = length_of_time(text[1:]) if text.startswith("-") else None
    if ago is not None:
        return _before(datetime.now(UTC), ago)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        kind.fail(f"{value!r} is {wrong}", param, ctx)
    if moment.tzinfo is None:
        kind.fail(f"{value!r} has no zone: say {_EXAMPLE}", param, ctx)
    try:
        moment.astimezone(UTC)
    except OverflowError:
        kind.fail(f"{value!r} is outside the years 1 to 9999 of UTC", param, ctx)
    return moment


def _before(now: datetime, ago: timedelta) -> datetime:
    """The time before a span; the first year if that is out of range."""
    try:
        return now - ago
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
