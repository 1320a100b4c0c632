"""Lengths of time on the command line: ``90s``, ``1h30m``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

import click

_WAIT: Final = re.compile(
    r"(?=.)(?:(?P<days>\d{1,6})d)?(?:(?P<hours>\d{1,6})h)?(?:(?P<minutes>\d{1,6})m)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,6})?)s)?(?:(?P<milliseconds>\d{1,12})ms)?"
)


class WaitType(click.ParamType[timedelta]):
    """A length of time: numbers with units, the largest first."""

    name = "WAIT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Read the option."""
        if isinstance(value, timedelta):
            return value
        found = length_of_time(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration: give one such as 90s, 1h30m or 2d", param, ctx)
        return found


def length_of_time(text: str) -> timedelta | None:
    """Parse a length of time, such as ``1h30m``; None if it is not one."""
    found = _WAIT.fullmatch(text)
    if found is None:
        return None
    return timedelta(**{unit: float(said) for unit, said in found.groupdict("0").items()})
