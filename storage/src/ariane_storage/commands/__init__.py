"""``ariane store``: looking at a closed store, checking it, and building again what is derived."""

from ariane_storage.commands.group import store

__all__ = ["store"]
