"""A client as the gateway knows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class GatewayClient:
    """A client that was heard of lately.

    Nothing that a client asks for needs any of this: it is for what the gateway must tell a client,
    and for people.

    Attributes:
        client_id: Its id, unique among living clients.
        language: What it is written in, as it says.
        version: The version of its library.
        groups: Consumer groups that it is in.
        topics: Topics that it produces to.
        last_heard_s: When it was last heard of, by the gateway's monotonic clock.
        streams: Sends it something over each of its open streams.
    """

    client_id: str
    language: str = ""
    version: str = ""
    groups: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    last_heard_s: float = 0.0
    streams: list[Callable[[Any], None]] = field(default_factory=list)
