"""Pipelines that many need: as functions here, and as commands below ``ariane spark``.

Each function is loaded when it is asked for: completion and help of ``ariane`` pass here, and would
wait for Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ariane_pipelines.archive import ArchivePlan, read_archive, start_archive
    from ariane_pipelines.letters import LetterFilter, dead_letters
    from ariane_pipelines.redriving import RedrivePlan, RedriveReport, redrive
    from ariane_pipelines.repairs import Letter
    from ariane_pipelines.replaying import ReplayPlan, replay
    from ariane_pipelines.report import write_report
    from ariane_pipelines.sessions import SessionsPlan, session_counts, start_sessions

__all__ = [
    "ArchivePlan",
    "Letter",
    "LetterFilter",
    "RedrivePlan",
    "RedriveReport",
    "ReplayPlan",
    "SessionsPlan",
    "dead_letters",
    "read_archive",
    "redrive",
    "replay",
    "session_counts",
    "start_archive",
    "start_sessions",
    "write_report",
]

_HOMES = {
    "archive": ("ArchivePlan", "read_archive", "start_archive"),
    "letters": ("LetterFilter", "dead_letters"),
    "redriving": ("RedrivePlan", "RedriveReport", "redrive"),
    "repairs": ("Letter",),
    "replaying": ("ReplayPlan", "replay"),
    "report": ("write_report",),
    "sessions": ("SessionsPlan", "session_counts", "start_sessions"),
}


def __getattr__(name: str) -> Any:
    """Load what is asked for; no module bears the name of a function."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
