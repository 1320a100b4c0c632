"""A client that is attached to this broker, and what it says of itself when it comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ariane_broker.clients.deaths.client_work import ClientWork
from ariane_broker.clients.membership import Membership
from ariane_broker.clients.outbox import Outbox


@dataclass(slots=True, eq=False)
class AttachedClient:
    """A client that lives.

    Attributes:
        client_id: Unique among living clients.
        language: Of the SDK.
        sdk_version: Of the SDK.
        producer_groups: Groups it produces in.
        memberships: Groups it consumes in, by name.
        address: As the broker sees it.
        attach_time_ms: When it attached.
        last_heard_ms: When it was last heard of.
        last_heard: The same by a clock that never goes back, in seconds.
        outbox: What it is to be told.
        wanted: What each of its groups wants of each topic, to compare pulls with.
        work: What it was handed out.
        said_goodbye: Whether it told that it leaves.
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
    wanted: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    work: ClientWork = field(default_factory=ClientWork)
    said_goodbye: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a client says of itself when it attaches.

    Attributes:
        client_id: Unique among living clients.
        language: Of the SDK.
        sdk_version: Of the SDK.
        producer_groups: Groups it produces in.
        memberships: Groups it consumes in.
        reads_records: Whether it is asked about half messages by their records.
    """

    client_id: str
    language: str = ""
    sdk_version: str = ""
    producer_groups: tuple[str, ...] = ()
    memberships: tuple[Membership, ...] = ()
    reads_records: bool = False
