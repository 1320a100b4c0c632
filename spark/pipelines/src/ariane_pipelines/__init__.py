"""Common pipelines: as functions here, and as commands below ``ariane spark``.

Each is loaded when it is used: completion and help of ``ariane`` import this package, and would
wait for Spark. ``__init__.pyi`` has the same names for type checkers.
"""

from ariane_pipelines.names import __dir__, __getattr__  # noqa: F401 - Python calls them for names.

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
