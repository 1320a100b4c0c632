"""The modules of the names of the package; no module has the name of a function."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_HOMES: Final = {
    "archive": ("ArchivePlan", "read_archive", "start_archive"),
    "letters": ("LetterFilter", "dead_letters"),
    "redriving": ("RedrivePlan", "RedriveReport", "redrive"),
    "repairs": ("Letter",),
    "replaying": ("ReplayPlan", "replay"),
    "report": ("write_report",),
    "sessions": ("SessionsPlan", "session_counts", "start_sessions"),
}


def __getattr__(name: str) -> Any:
    """Load a name on its first use."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"ariane_pipelines.{home}"), name)
    raise AttributeError(f"module 'ariane_pipelines' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names of the package."""
    return sorted(name for names in _HOMES.values() for name in names)
