"""``ariane spark``: archive, replay and analyze topics with Spark."""

from ariane_pipelines.commands.group import spark

__all__ = ["spark"]
