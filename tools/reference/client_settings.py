"""Settings of the Python client as a table: fields of a dataclass, each with its docstring."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from tools.reference.markdown import code, table


def client_settings_table(settings: type[Any], beside: type[Any] | None = None) -> str:
    """Name, default and meaning of every field, in their order.

    Args:
        settings: The class; fields of its bases count.
        beside: A class whose fields are told elsewhere.

    Raises:
        KeyError: A field has no docstring.
    """
    meanings: dict[str, str] = {}
    for kind in reversed(settings.__mro__):
        meanings |= _docstrings_of_fields(kind) if dataclasses.is_dataclass(kind) else {}
    told = {field.name for field in dataclasses.fields(beside)} if beside else set()
    return table(
        ["Name", "Default", "Meaning"],
        (
            [code(field.name), _default(field.default), _meaning(meanings[field.name])]
            for field in dataclasses.fields(settings)
            if field.name not in told
        ),
    )


def _docstrings_of_fields(kind: type[Any]) -> dict[str, str]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    found: dict[str, str] = {}
    for field, after in pairwise(body.body if isinstance(body, ast.ClassDef) else ()):
        match field, after:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                found[name] = " ".join(text.split())
    return found


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
