"""Who calls: what a connection has proved, and for whom a member of the cluster acts.

The caller of a call is found when it is first asked for, by the process's ``Identify``. A servicer
asks ``current_caller()``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from grpc import aio

from ariane_servicekit.security.rights.rights import Judge


class CallerKind(enum.Enum):
    """What a caller has proved."""

    ANONYMOUS = "anonymous"
    """Nothing."""
    USER = "user"
    """That it is a user, or a member that may act for users says so."""
    MEMBER = "member"
    """That it is a process of the cluster, by a certificate of the members' CA."""


class MemberKind(enum.Enum):
    """Which process of a cluster a member is; the value is its word in certificates."""

    BROKER = "broker"
    REPLICA = "replica"
    NAME_SERVER = "namesrv"
    CHECKER = "checker"
    FILTER = "filter"
    GATEWAY = "gateway"
    ADMIN = "admin"


_ACTS_IN: Final = {
    MemberKind.FILTER: ("/ariane.broker.v1.PullService/",),
    MemberKind.GATEWAY: (
        "/ariane.namesrv.v1.RouteService/GetRoute",
        "/ariane.namesrv.v1.RouteService/ListBrokers",
        "/ariane.broker.v1.TopicService/GetTopic",
        "/ariane.broker.v1.GroupService/GetConsumerGroup",
        "/ariane.broker.v1.SendService/AppendRecords",
        "/ariane.broker.v1.SendService/RecallMessage",
        "/ariane.broker.v1.TransactionService/UpdateTransactions",
        "/ariane.broker.v1.ReceiveService/ReceiveRecords",
        "/ariane.broker.v1.ReceiveService/SettleRecords",
        "/ariane.broker.v1.ReceiveService/KeepInvisible",
    ),
}
"""What members ask for users: methods, or with a slash at the end all of a service. A FilterServer
runs foreign code and a gateway parses what strangers send: one that was taken over deletes and
resets nothing in the name of anybody. Admin acts in all methods."""

BROKERS: Final = frozenset({MemberKind.BROKER, MemberKind.REPLICA})
"""Those that hold a store: in a set, each is primary or replica by turns."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls."""

    kind: CallerKind
    """What it has proved."""
    peer: str
    """Its transport address in gRPC's form, such as ``ipv4:127.0.0.1:40211``."""
    name: str = ""
    """The user, or the member within its kind, such as ``broker-a``. Empty if anonymous."""
    groups: tuple[str, ...] = ()
    """Groups of the user as its OpenID provider states them; each is a role here."""
    member_kind: MemberKind | None = None
    """Which process it is. Only of members."""
    cluster: str = ""
    """Its cluster. Only of members."""
    acting: Caller | None = None
    """The member that acts for this user. None if the user calls itself."""
    credential_id: str = ""
    """The credential by whose key a user has logged in; empty otherwise."""
    scope: Judge | None = None
    """What a delegation leaves of the user's rights. None without one."""
    ends_ms: int = field(default=0, compare=False)
    """When what it has proved itself by ends for good, in ms since 1970: a token, a certificate, a
    key or its delegation. 0: at no time of its own."""

    @property
    def address(self) -> str:
        """Its IP address, such as ``127.0.0.1`` or ``::1``; empty if it has none."""
        return address_of_peer(self.peer)

    def acts_too_far(self, method: str) -> bool:
        """Whether a member acts for the user in a method in which such a member does not."""
        if self.acting is None or self.acting.member_kind not in _ACTS_IN:
            return False
        methods = _ACTS_IN[self.acting.member_kind]
        return method not in methods and method[: method.rfind("/") + 1] not in methods

    def __str__(self) -> str:
        """Name it for people, such as ``user anna by gateway g1``."""
        if self.kind is CallerKind.ANONYMOUS:
            return "nobody known"
        kind = self.kind if self.member_kind is None else self.member_kind
        own = f"{kind.value} {self.name}"
        if self.scope is not None:
            own += " by delegation"
        return own if self.acting is None else f"{own} by {self.acting}"


Identify: TypeAlias = Callable[[aio.ServicerContext[Any, Any]], Caller]
"""Finds who makes a call, from the transport's end of it.

Raises ``ServiceError`` with CREDENTIALS_INVALID if what the caller shows does not hold.
"""


def anonymous(context: aio.ServicerContext[Any, Any]) -> Caller:
    """Take every caller as nobody known: the identity of a process without credentials."""
    return Caller(CallerKind.ANONYMOUS, context.peer())


def address_of_peer(peer: str) -> str:
    """Return the IP address of a peer in gRPC's form; empty for one without.

    Args:
        peer: Such as ``ipv4:127.0.0.1:40211``, ``ipv6:[::1]:40211`` (brackets also as %5B and
            %5D), or ``unix:``.
    """
    kind, _, rest = peer.partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return ""
    host = rest.rpartition(":")[0].replace("%5B", "[").replace("%5D", "]")
    return host.removeprefix("[").removesuffix("]").partition("%")[0]
