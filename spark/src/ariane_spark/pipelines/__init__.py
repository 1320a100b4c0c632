"""Pipelines that many need: as functions here, and as commands below ``ariane spark``."""

from ariane_spark.pipelines.archive import ArchivePlan, read_archive, start_archive
from ariane_spark.pipelines.replay import ReplayPlan, replay
from ariane_spark.pipelines.report import write_report

__all__ = [
    "ArchivePlan",
    "ReplayPlan",
    "read_archive",
    "replay",
    "start_archive",
    "write_report",
]
