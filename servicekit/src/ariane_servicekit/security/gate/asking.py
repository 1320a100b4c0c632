"""What servicers and use cases ask about the rights of the call in work.

Outside of calls, and in a process that is open, everything is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.rpc.calls import current_call
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate


def require(action: int, resource: int, name: str) -> None:
    """Ask for a right on what a handle touches.

    Args:
        action: An ``Action``.
        resource: A ``Resource``.
        name: Of the thing.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    call = current_call()
    if call is not None and call.is_judged:
        call.gate.require(call, action, resource, name)


def require_publish(topic: str) -> None:
    """Ask for the right to send to a topic.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    require(access.ACTION_PUBLISH, access.RESOURCE_TOPIC, topic)


def require_publish_some() -> None:
    """Ask for the right to send to any topic at all.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    call = current_call()
    if call is not None and call.is_judged:
        call.gate.require_some(call, access.ACTION_PUBLISH, access.RESOURCE_TOPIC)


def require_subscribe(topics: Iterable[str]) -> None:
    """Ask for the right to read topics.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    for topic in topics:
        require(access.ACTION_SUBSCRIBE, access.RESOURCE_TOPIC, topic)


def require_seen(topic: str) -> None:
    """Ask for the right to see a topic, without its messages.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    require(access.ACTION_GET, access.RESOURCE_TOPIC, topic)


def require_create_topic(topic: str) -> None:
    """Ask for the right to create a topic.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    require(access.ACTION_CREATE, access.RESOURCE_TOPIC, topic)


def require_create_group(group: str) -> None:
    """Ask for the right to create a group.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    require(access.ACTION_CREATE, access.RESOURCE_GROUP, group)


def require_sink(action: int, query_id: str, owner: str, topic: str | None = None) -> None:
    """Ask for a right on a sink, which its owner has, unless a delegation leaves it out.

    Args:
        action: An ``Action``.
        query_id: The sink.
        owner: Whose it is; empty for nobody's.
        topic: The topic of a noted sink, empty if its rows name topics: where it is nobody's, who
            may send there has the owner's rights, but to delete it. None: it is not noted.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    call = current_call()
    if owner:
        owns = user_name() == owner
    else:
        owns = topic is not None and action != access.ACTION_DELETE and may_adopt_sink(topic)
    if not owns:
        require(action, access.RESOURCE_SINK, query_id)
    elif call is not None and call.gate is not None:
        call.gate.require_delegated(call, action, access.RESOURCE_SINK, query_id)


def may_adopt_sink(topic: str) -> bool:
    """Whether the user of the call in work may own a sink that is nobody's: who may send to it.

    Args:
        topic: Its topic; empty if its rows name topics, where it is who may send to some.
    """
    return user_name() != "" and _may(access.ACTION_PUBLISH, access.RESOURCE_TOPIC, topic or None)


def may_update_sink(query_id: str) -> bool:
    """Whether the caller of the call in work has the right on a sink itself, as operators have."""
    return _may(access.ACTION_UPDATE, access.RESOURCE_SINK, query_id)


def require_gateway() -> None:
    """Refuse a caller who is no gateway of the cluster.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    call = current_call()
    if call is not None and call.is_judged and call.caller.member_kind is not MemberKind.GATEWAY:
        raise ServiceError(
            ErrorReason.ERROR_REASON_ACCESS_DENIED, "only a gateway of the cluster relays clients"
        )


def has_its_rights() -> bool:
    """Whether the caller of the call in work has all rights that its requests have needed.

    Only a closed process makes sure of that: one that learns lets through who lacks them.
    """
    call = current_call()
    return call is not None and call.is_judged and call.gate.mode is AccessMode.CLOSED


def require_super(what: str) -> None:
    """Refuse a caller of a closed process who is no super user.

    Args:
        what: What only these may do, for people.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    call = current_call()
    if call is not None and call.is_judged and not call.gate.admits_super(call.caller):
        raise ServiceError(ErrorReason.ERROR_REASON_ACCESS_DENIED, f"only a super user may {what}")


def user_name() -> str:
    """The user of the call in work; empty for a member, a stranger, or outside of calls."""
    call = current_call()
    if call is None:
        return ""
    caller = call.caller
    return caller.name if caller.kind is CallerKind.USER else ""


def relayed_caller(user: str, address: str) -> Caller | None:
    """Who a client is that the caller, a gateway, tells of.

    Args:
        user: Its user, as the gateway says; empty if it does not know.
        address: Its address and port, as the gateway sees it: entries with networks are judged by
            it, and never by the gateway's own.
    """
    call = current_call()
    if call is None:
        return None
    gateway = call.caller
    if not user or gateway.member_kind is not MemberKind.GATEWAY:
        return gateway
    peer = f"ipv6:{address}" if address.startswith("[") else f"ipv4:{address}"
    return Caller(CallerKind.USER, peer, user, acting=gateway)


def may_publish(caller: Caller | None, topic: str) -> bool:
    """Whether another caller, such as that of an attached client, may send to a topic now."""
    gate = _gate()
    return gate is None or gate.allows(caller, access.ACTION_PUBLISH, access.RESOURCE_TOPIC, topic)


def may_consume(caller: Caller | None, group: str, topics: Iterable[str]) -> bool:
    """Whether another caller may consume topics for a group now."""
    gate = _gate()
    return gate is None or allows_consuming(gate, caller, group, topics)


def allows_consuming(gate: Gate, caller: Caller | None, group: str, topics: Iterable[str]) -> bool:
    """Whether a caller may consume topics for a group now, also outside of calls."""
    return gate.allows(caller, access.ACTION_SUBSCRIBE, access.RESOURCE_GROUP, group) and all(
        gate.allows(caller, access.ACTION_SUBSCRIBE, access.RESOURCE_TOPIC, topic)
        for topic in topics
    )


def _may(action: int, resource: int, name: str | None) -> bool:
    call, gate = current_call(), _gate()
    return call is None or gate is None or gate.allows(call.caller, action, resource, name)


def _gate() -> Gate | None:
    """The gate of the call in work; None outside of calls."""
    call = current_call()
    return None if call is None else call.gate
