"""Entries of policies as words: how the command line takes and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules_pb
from ariane_servicekit.security.rules.words import action_word, resource_word

ACTIONS: Final = {
    action_word(action): action
    for action in (
        access.ACTION_PUBLISH,
        access.ACTION_SUBSCRIBE,
        access.ACTION_CREATE,
        access.ACTION_UPDATE,
        access.ACTION_DELETE,
        access.ACTION_GET,
    )
}
"""Actions that can be granted, by word."""

RESOURCES: Final = {
    resource_word(resource): resource for resource in access.Resource.values() if resource
}
"""Kinds of things, by word."""

ANY_NAME: Final = "*"
"""Every name; behind the beginning of a name, all that begin so."""


def entry_of(
    actions: Sequence[str],
    resource: str,
    name: str,
    *,
    deny: bool = False,
    networks: Sequence[str] = (),
) -> rules_pb.AccessEntry:
    """Make an entry.

    Args:
        actions: Words of ``ACTIONS``.
        resource: A word of ``RESOURCES``.
        name: A name, a beginning of names with ``*`` behind it, or ``*``.
        deny: Whether it denies.
        networks: Source networks.
    """
    pattern = rules_pb.NAME_PATTERN_LITERAL
    if name in {ANY_NAME, ""}:
        pattern, name = rules_pb.NAME_PATTERN_ANY, ""
    elif name.endswith(ANY_NAME):
        pattern, name = rules_pb.NAME_PATTERN_PREFIX, name[:-1]
    decision = rules_pb.ACCESS_DECISION_DENY if deny else rules_pb.ACCESS_DECISION_ALLOW
    return rules_pb.AccessEntry(
        decision=decision,
        resource=RESOURCES[resource],
        pattern=pattern,
        name=name,
        actions=sorted({ACTIONS[action] for action in actions}),
        source_networks=networks,
    )


def entry_row(entry: rules_pb.AccessEntry) -> dict[str, Any]:
    """An entry as a row."""
    return {
        "decision": "deny" if entry.decision == rules_pb.ACCESS_DECISION_DENY else "allow",
        "actions": [action_word(action) for action in entry.actions],
        "resource": resource_word(entry.resource),
        "name": name_text(entry),
        "networks": list(entry.source_networks),
    }


def name_text(entry: rules_pb.AccessEntry) -> str:
    """The names that an entry fits, as ``entry_of`` takes them."""
    if entry.pattern == rules_pb.NAME_PATTERN_LITERAL:
        return entry.name
    return entry.name + ANY_NAME
