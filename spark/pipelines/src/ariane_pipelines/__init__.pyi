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
