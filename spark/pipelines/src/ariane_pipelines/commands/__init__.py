"""``ariane spark``: pipelines on topics, as commands."""

from ariane_pipelines.commands.group import spark

__all__ = ["spark"]
