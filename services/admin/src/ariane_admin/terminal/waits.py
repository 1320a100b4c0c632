"""Lengths of time on the command line: ``90s``, ``1h30m``."""

from __future__ import annotations

from datetime import timedelta

import click

from ariane_admin.times import length_of_time


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
