"""A client as the gateway knows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ariane_gateway.brokers.portrait import Portrait, Wanted


@dataclass(slots=True, eq=False)
class GatewayClient:
    """A client that was heard of lately.

    Nothing that a client asks for needs any of this: it is for what the gateway must tell a client,
    for brokers, which keep its messages while it lives, and for people.
    """

    client_id: str
    """Its id, unique among living clients."""
    language: str = ""
    """What it is written in, as it says."""
    version: str = ""
    """The version of its library."""
    address: str = ""
    """Where it calls from."""
    user: str = ""
    """The user that it signs as; empty where nobody asks."""
    consumes: dict[str, tuple[Wanted, ...]] = field(default_factory=dict)
    """What it wants, by consumer group, as it last said over its stream."""
    produces: tuple[str, ...] = ()
    """Topics that it produces to, likewise."""
    weight: int = 0
    """How much it says with both, as ``heavy_clients.weight_of`` has it."""
    last_heard_s: float = 0.0
    """When it was last heard of, by the gateway's monotonic clock."""
    streams: list[Callable[[Any], None]] = field(default_factory=list)
    """Sends it something over each of its open streams; the latest last."""

    @property
    def portrait(self) -> Portrait:
        """The client as brokers are told of it."""
        reachable = bool(self.streams)
        return Portrait(
            self.client_id,
            self.language,
            self.version,
            self.address,
            self.user,
            reachable,
            self.produces if reachable else (),
            dict(self.consumes) if reachable else {},
        )
