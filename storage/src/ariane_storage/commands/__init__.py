"""``ariane store``: check and repair a closed store."""

from ariane_storage.commands.group import store

__all__ = ["store"]
