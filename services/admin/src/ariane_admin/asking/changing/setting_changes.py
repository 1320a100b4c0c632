"""Changes of settings in running processes, from ``KEY=VALUE`` arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click
from typing_extensions import override

from ariane.admin.v1.setting_service_pb2 import SettingOutcome, UpdateSettingRequest
from ariane_admin.asking.changing.changes import error_of
from ariane_admin.asking.services import Services
from ariane_admin.terminal.output import Output, Row
from ariane_sdk.errors import CallError


class Assignment(NamedTuple):
    """A setting and its new value, as text."""

    name: str
    value: str


class AssignmentType(click.ParamType[Assignment]):
    """``KEY=VALUE``; the key may have hyphens, like the flag."""

    name = "KEY=VALUE"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Assignment:
        """Read the argument."""
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"{value!r}: give KEY=VALUE, such as concurrent_calls_max=8192", param, ctx)
        return Assignment(key.replace("-", "_"), text)


class SettingChanges(NamedTuple):
    """The outcome of changes of settings."""

    rows: list[Row]
    """The outcome in each process, for an output."""
    error: CallError | None
    """The first refusal; None without one."""

    def write(self, output: Output) -> None:
        """Write the changes, also if some failed.

        Raises:
            CallError: A process refused a change.
        """
        if self.rows:
            columns = ("service", "address", "setting", "before", "value", "error")
            output.rows(columns, self.rows)
        if self.error is not None:
            raise self.error


async def change_settings(
    changes: Services,
    service: str,
    addresses: Sequence[str],
    assignments: Sequence[Assignment],
) -> SettingChanges:
    """Change settings one after another, up to the first that all processes refuse.

    Args:
        changes: The services.
        service: The service, as in ``ProcessReference``.
        addresses: The processes; empty for all of the service.
        assignments: The changes, in this order.
    """
    rows: list[Row] = []
    error: CallError | None = None
    for name, value in assignments:
        request = UpdateSettingRequest(service=service, addresses=addresses, name=name, value=value)
        try:
            answer = await changes.ask(changes.settings.UpdateSetting, request)
        except CallError as refusal:
            if rows:
                done = ", ".join(sorted({str(row["setting"]) for row in rows}))
                refusal.add_note(f"the assignments before it were changed: {done}")
            return SettingChanges(rows, refusal)
        for outcome in answer.outcomes:
            refused = error_of(outcome.error) if outcome.HasField("error") else None
            rows.append(_row(outcome, name, value, refused))
            error = error or refused
    return SettingChanges(rows, error)


def _row(outcome: SettingOutcome, name: str, value: str, refused: CallError | None) -> Row:
    return {
        "service": outcome.process.service,
        "address": outcome.process.address,
        "member": outcome.process.member,
        "setting": name,
        "before": outcome.previous_value,
        "value": outcome.previous_value if refused else value,
        "error": str(refused) if refused else None,
    }
