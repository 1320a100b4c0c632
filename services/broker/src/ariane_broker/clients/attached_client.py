"""A client that is attached to this broker, and the hello that it sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ariane_broker.clients.deaths.client_work import ClientWork
from ariane_broker.clients.members.membership import Membership
from ariane_broker.clients.outbox import Outbox
from ariane_broker.clients.queue_hold import QueueHold
from ariane_servicekit.security.caller import Caller


@dataclass(slots=True, eq=False)
class AttachedClient:
    """A live client."""

    client_id: str
    """Unique among living clients."""
    language: str
    """Language of its SDK."""
    sdk_version: str
    """Version of its SDK."""
    producer_groups: tuple[str, ...]
    """Groups it produces in."""
    memberships: Mapping[str, Membership]
    """Groups it consumes in, by name."""
    address: str
    """Its address, as the broker sees it."""
    attach_time_ms: int
    """When it attached."""
    last_heard_ms: int
    """When its last heartbeat arrived."""
    last_heard: float
    """The same by the monotonic clock, in seconds."""
    outbox: Outbox = field(default_factory=Outbox)
    """Notices for it."""
    is_relayed: bool = False
    """Whether it is here by way of a gateway. What it says of its subscriptions may be old, and
    only what it asks for counts."""
    wanted: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Filter of each topic in each of its groups, to compare pulls with."""
    weight: int = 0
    """How much its memberships say; see ``Membership.weight``."""
    work: ClientWork = field(default_factory=ClientWork)
    """The messages that it has in work."""
    has_left: bool = False
    """Whether its goodbye has come. A stream that ends without one may be that of a dead client."""
    incarnation: str = ""
    """Made anew at each start of the client; perhaps empty."""
    holds: tuple[QueueHold, ...] = ()
    """Queues of which it hands out nothing, by its last heartbeat."""
    holds_reported_s: float = 0.0
    """When that was, by the monotonic clock, in seconds."""
    caller: Caller | None = None
    """Who attached it; None inside the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first request of a client."""

    client_id: str
    """Unique among living clients."""
    language: str = ""
    """Language of its SDK."""
    sdk_version: str = ""
    """Version of its SDK."""
    producer_groups: tuple[str, ...] = ()
    """Groups it produces in."""
    memberships: tuple[Membership, ...] = ()
    """Groups it consumes in."""
    reads_records: bool = False
    """Whether questions about half messages have their records."""
    incarnation: str = ""
    """Made anew at each start of the client; perhaps empty."""
