"""Who says which connections a server takes."""

from __future__ import annotations

from typing import Any, Protocol

from ariane_wire.server.identity import Identity


class ConnectionWatch(Protocol):
    """Who says which connections may come."""

    def opened(self, peer: str) -> bool:
        """Whether a connection may come, from an address as ``Identity.peer``."""

    def closed(self, peer: str, notes: dict[str, Any]) -> None:
        """A connection is gone that came; ``notes`` are those of its ``Identity``."""

    def is_stranger(self, identity: Identity) -> bool:
        """Whether a client has proved nothing, and its connection may end for one of another.

        Where a client may be a stranger that was none before, ``Server.ask_again`` is called.
        """
