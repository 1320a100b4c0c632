"""Settings of the Python client as a table: fields of a dataclass, told in its docstring."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from typing import Any, Final

from tools.reference.markdown import code, table

_ATTRIBUTE: Final = re.compile(r"^    (\w+): (.+(?:\n        .+)*)", re.MULTILINE)


def client_settings_table(settings: type[Any]) -> str:
    """Name, default and meaning of every field, in their order.

    Raises:
        KeyError: The docstring does not tell of a field.
    """
    _, _, attributes = inspect.cleandoc(settings.__doc__ or "").partition("Attributes:\n")
    meanings = {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(attributes)}
    return table(
        ["Name", "Default", "Meaning"],
        (
            [code(field.name), _default(field.default), _meaning(meanings[field.name])]
            for field in dataclasses.fields(settings)
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
