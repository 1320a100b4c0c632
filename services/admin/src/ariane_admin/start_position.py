"""Where to begin to read: ``--from``."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import click

StartPosition: TypeAlias = Literal["earliest", "latest"] | datetime


class StartPositionType(click.ParamType[StartPosition]):
    """``earliest``, ``latest``, or a time with its zone."""

    name = "earliest|latest|TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> StartPosition:
        """Read the option."""
        if isinstance(value, datetime):
            return value
        if value == "earliest":
            return "earliest"
        if value == "latest":
            return "latest"
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither earliest, latest nor a time", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no zone: say 2026-01-31T10:00:00Z", param, ctx)
        return moment
