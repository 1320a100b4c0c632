"""The present settings of a process: those of its start, with later changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.configuration.settings_sources import SettingRow, settings_reference
from ariane_servicekit.errors import refusal

Apply: TypeAlias = Callable[[Any], None]
"""Lets the process work with the new value of a setting."""

_CHANGED: Final = "call"


@dataclass(frozen=True, slots=True)
class LiveSetting:
    """One setting as it is now."""

    row: SettingRow
    value: str
    source: str
    """default, file, environment, flag, or call."""


class LiveSettings:
    """Shows all settings, and changes those that may change while the process runs.

    Args:
        settings: The settings at the start.
        appliers: The functions that apply changed settings, by setting.

    Raises:
        ValueError: A changeable setting has no applier, or the reverse.
    """

    def __init__(self, settings: ServiceSettings, appliers: Mapping[str, Apply]) -> None:
        self._settings = settings
        self._appliers = appliers
        self._changed: set[str] = set()
        self._rows = {row.name: row for row in settings_reference(type(settings))}
        changeable = {name for name, row in self._rows.items() if row.changeable}
        if changeable != set(appliers):
            msg = f"changeable settings {sorted(changeable)}, applied are {sorted(appliers)}"
            raise ValueError(msg)

    def all(self) -> list[LiveSetting]:
        """Return all settings, by name."""
        return [self.get(name) for name in sorted(self._rows)]

    def get(self, name: str) -> LiveSetting:
        """Return one known setting."""
        source = _CHANGED if name in self._changed else self._settings.source_of(name)
        return LiveSetting(self._rows[name], _text(self._settings.shown()[name]), source)

    def change(self, name: str, text: str) -> LiveSetting:
        """Change a setting until the process ends; return its new state.

        Raises:
            ServiceError: SETTING_INVALID if it is unknown, may not change, or the value is illegal.
        """
        if name not in self._rows:
            raise _invalid(name, "is not known")
        if name not in self._appliers:
            raise _invalid(name, "may not change while the process runs")
        try:
            settings = self._settings.with_value(name, text)
        except ValidationError as error:
            first = error.errors()[0]
            raise _invalid(name, first["msg"].removeprefix("Value error, ")) from None
        self._appliers[name](getattr(settings, name))
        self._settings = settings
        self._changed.add(name)
        return self.get(name)


def _text(value: object) -> str:
    """A value in the form of ``--help`` and of the file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


@refusal(ErrorReason.ERROR_REASON_SETTING_INVALID)
def _invalid(setting: str, rule: str) -> str:
    return f"setting {setting!r}: {rule[0].lower()}{rule[1:]}"
