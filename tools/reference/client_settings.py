"""Settings of the Python client as a table: fields of a dataclass, told in its docstring."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from typing import Any, Final

from tools.reference.markdown import code, table

_ATTRIBUTE: Final = re.compile(r"^    (\w+): (.+(?:\n        .+)*)", re.MULTILINE)


def client_settings_table(settings: type[Any], beside: type[Any] | None = None) -> str:
    """Name, default and meaning of every field, in their order.

    Args:
        settings: The class, whose docstring and those of its bases tell the meanings.
        beside: A class whose fields are told elsewhere.

    Raises:
        KeyError: The docstring does not tell of a field.
    """
    meanings: dict[str, str] = {}
    for kind in reversed(settings.__mro__):
        _, _, attributes = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
        meanings |= {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(attributes)}
    told = {field.name for field in dataclasses.fields(beside)} if beside else set()
    return table(
        ["Name", "Default", "Meaning"],
        (
            [code(field.name), _default(field.default), _meaning(meanings[field.name])]
            for field in dataclasses.fields(settings)
            if field.name not in told
        ),
    )


def _meaning(text: str) -> str:
    return text.replace("``", "`")


def _default(default: object) -> str:
    if default is None or default == "":
        return "unset"
    if isinstance(default, enum.Enum):
        return code(default.name)
    if isinstance(default, tuple):
        return ", ".join(map(_default, default))
    if isinstance(default, float):
        return code(f"{default:g}")
    return code(str(default))
