"""``ariane spark``: pipelines on topics, as commands."""

from ariane_spark.commands.group import spark

__all__ = ["spark"]
