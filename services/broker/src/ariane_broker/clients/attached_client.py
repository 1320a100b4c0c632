"""A client that is attached to this broker, and the hello that it sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ariane_broker.clients.deaths.client_work import ClientWork
from ariane_broker.clients.membership import Membership
from ariane_broker.clients.outbox import Outbox
from ariane_broker.clients.queue_hold import QueueHold
from ariane_servicekit.security.caller import Caller


@dataclass(slots=True, eq=False)
class AttachedClient:
    """A live client.

    Attributes:
        client_id: Unique among living clients.
        language: Language of its SDK.
        sdk_version: Version of its SDK.
        producer_groups: Groups it produces in.
        memberships: Groups it consumes in, by name.
        address: Its address, as the broker sees it.
        attach_time_ms: When it attached.
        last_heard_ms: When its last heartbeat arrived.
        last_heard: The same by the monotonic clock, in seconds.
        outbox: Notices for it.
        is_relayed: Whether it is here by way of a gateway. What it says of its subscriptions may be
            old, and only what it asks for counts.
        wanted: Filter of each topic in each of its groups, to compare pulls with.
        work: The messages that it has in work.
        said_goodbye: Whether it has detached by itself.
        incarnation: Made anew at each start of the client; perhaps empty.
        holds: What it hands out nothing of, by its last heartbeat.
        caller: Who attached it; None inside the process.
    """

    client_id: str
    language: str
    sdk_version: str
    producer_groups: tuple[str, ...]
    memberships: Mapping[str, Membership]
    address: str
    attach_time_ms: int
    last_heard_ms: int
    last_heard: float
    outbox: Outbox = field(default_factory=Outbox)
    is_relayed: bool = False
    wanted: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    work: ClientWork = field(default_factory=ClientWork)
    said_goodbye: bool = False
    incarnation: str = ""
    holds: tuple[QueueHold, ...] = ()
    caller: Caller | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first request of a client.

    Attributes:
        client_id: Unique among living clients.
        language: Language of its SDK.
        sdk_version: Version of its SDK.
        producer_groups: Groups it produces in.
        memberships: Groups it consumes in.
        reads_records: Whether questions about half messages have their records.
        incarnation: Made anew at each start of the client; perhaps empty.
    """

    client_id: str
    language: str = ""
    sdk_version: str = ""
    producer_groups: tuple[str, ...] = ()
    memberships: tuple[Membership, ...] = ()
    reads_records: bool = False
    incarnation: str = ""
