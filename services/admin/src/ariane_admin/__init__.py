"""The command line of ArianeMQ; the admin service will join it here."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ariane_admin.errors import CommandFailed
    from ariane_admin.exits import ExitStatus
    from ariane_admin.output import Output, output_option

__all__ = ["CommandFailed", "ExitStatus", "Output", "output_option"]

_HOMES = MappingProxyType(
    {
        "CommandFailed": "errors",
        "ExitStatus": "exits",
        "Output": "output",
        "output_option": "output",
    }
)


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for, and not before `__main__` has its say about Ctrl-C.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
