"""Pipelines that many need: as functions here, and as commands below ``ariane spark``."""

from ariane_spark.pipelines.archive import ArchivePlan, read_archive, start_archive
from ariane_spark.pipelines.dead_letters import LetterFilter, dead_letters
from ariane_spark.pipelines.redrive import RedrivePlan, RedriveReport, redrive
from ariane_spark.pipelines.repairs import Letter
from ariane_spark.pipelines.replay import ReplayPlan, replay
from ariane_spark.pipelines.report import write_report
from ariane_spark.pipelines.sessions import SessionsPlan, session_counts, start_sessions

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
