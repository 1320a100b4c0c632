"""Common pipelines: as functions here, and as commands below ``ariane spark``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ariane_pipelines.archive import ArchivePlan as ArchivePlan
    from ariane_pipelines.archive import read_archive as read_archive
    from ariane_pipelines.archive import start_archive as start_archive
    from ariane_pipelines.letters import LetterFilter as LetterFilter
    from ariane_pipelines.letters import dead_letters as dead_letters
    from ariane_pipelines.redriving import RedrivePlan as RedrivePlan
    from ariane_pipelines.redriving import RedriveReport as RedriveReport
    from ariane_pipelines.redriving import redrive as redrive
    from ariane_pipelines.repairs import Letter as Letter
    from ariane_pipelines.replaying import ReplayPlan as ReplayPlan
    from ariane_pipelines.replaying import replay as replay
    from ariane_pipelines.report import write_report as write_report
    from ariane_pipelines.sessions import SessionsPlan as SessionsPlan
    from ariane_pipelines.sessions import session_counts as session_counts
    from ariane_pipelines.sessions import start_sessions as start_sessions
else:
    from ariane_pipelines.public_names import found as __getattr__  # noqa: F401 - as well.
    from ariane_pipelines.public_names import listed as __all__  # noqa: F401 - Python looks for it.
    from ariane_pipelines.public_names import names as __dir__  # noqa: F401 - as well.
