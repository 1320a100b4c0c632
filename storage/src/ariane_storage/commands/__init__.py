"""``ariane store``: reads, checks and rebuilds a closed store."""

from ariane_storage.commands.group import store

__all__ = ["store"]
