"""Which entry decides: the slow twin of ``rights``, for people."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit.security.rights.followed_names import is_for_all, is_of_system, judged


class Decision(NamedTuple):
    """What was decided, and by what."""

    allowed: bool
    """The decision."""
    entry: rules.AccessEntry | None
    """The entry that decides; None if none fits, or if everybody may do this."""


def decide(entries: Iterable[rules.AccessEntry], action: int, resource: int, name: str) -> Decision:
    """Decide as ``Rights`` does, and tell by which entry.

    Args:
        entries: Those that hold for the caller's address.
        action: An ``Action``.
        resource: A ``Resource``.
        name: Of the thing.
    """
    fitting = list(entries)
    action, resource, name = judged(action, resource, name)
    for denying in _fitting(fitting, rules.ACCESS_DECISION_DENY, action, resource, name):
        return Decision(allowed=False, entry=denying)
    if is_for_all(action, resource, name):
        return Decision(allowed=True, entry=None)
    for allowing in _fitting(fitting, rules.ACCESS_DECISION_ALLOW, action, resource, name):
        return Decision(allowed=True, entry=allowing)
    if action == access.ACTION_GET:
        for implying in (access.ACTION_PUBLISH, access.ACTION_SUBSCRIBE):
            implied = decide(fitting, implying, resource, name)
            if implied.allowed:
                return implied
    return Decision(allowed=False, entry=None)


def holds_from(entry: rules.AccessEntry, address: str) -> bool:
    """Whether an entry holds for callers from an address.

    Args:
        entry: The entry; one without networks holds from anywhere.
        address: An IP address, or empty for a caller without one.
    """
    if not entry.source_networks:
        return True
    try:
        source = plain_address(address)
    except ValueError:
        # Without a known address no promise about the address holds; a denial does.
        return entry.decision == rules.ACCESS_DECISION_DENY
    return any(_holds(network, source) for network in entry.source_networks)


def plain_address(text: str) -> IPv4Address | IPv6Address:
    """Parse an address; one of IPv4 that is written as one of IPv6 becomes what it is.

    Raises:
        ValueError: It is none.
    """
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def network_of(text: str) -> IPv4Network | IPv6Network:
    """Parse a network, such as ``10.1.0.0/16``.

    Raises:
        ValueError: It is none, or has bits of hosts.
    """
    return ip_network(text)


def _holds(network: str, source: IPv4Address | IPv6Address) -> bool:
    return source in network_of(network)


def _fitting(
    entries: Iterable[rules.AccessEntry], decision: int, action: int, resource: int, name: str
) -> Iterable[rules.AccessEntry]:
    whole = is_of_system(resource, name)
    return (
        entry
        for entry in entries
        if entry.decision == decision
        and entry.resource == resource
        and action in entry.actions
        and _name_fits(entry, name, whole=whole)
    )


def _name_fits(entry: rules.AccessEntry, name: str, *, whole: bool) -> bool:
    if entry.pattern == rules.NAME_PATTERN_LITERAL:
        return entry.name == name
    if whole:
        return False
    return entry.pattern == rules.NAME_PATTERN_ANY or (
        entry.pattern == rules.NAME_PATTERN_PREFIX and name.startswith(entry.name)
    )
