"""The least policy for what a user did."""

from __future__ import annotations

from collections.abc import Iterable

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules_pb
from ariane.common.v1.access_service_pb2 import AccessUse
from ariane_servicekit.security.rights.followed_names import is_for_all, judged

_IMPLYING_GET = frozenset({access.ACTION_PUBLISH, access.ACTION_SUBSCRIBE})


def least_entries(uses: Iterable[AccessUse]) -> list[rules_pb.AccessEntry]:
    """Return entries that allow what was used and nothing else, one for each name.

    Retry topics are covered by their group, and what all may do needs no entry.
    """
    needed: dict[tuple[int, str], set[int]] = {}
    for use in uses:
        action, resource, name = judged(use.action, use.resource, use.name)
        if not is_for_all(action, resource, name):
            needed.setdefault((resource, name), set()).add(action)
    return [_entry(*thing, needed[thing]) for thing in sorted(needed)]


def _entry(resource: int, name: str, actions: set[int]) -> rules_pb.AccessEntry:
    if actions & _IMPLYING_GET:
        actions = actions - {access.ACTION_GET}
    return rules_pb.AccessEntry(
        decision=rules_pb.ACCESS_DECISION_ALLOW,
        resource=resource,  # type: ignore[arg-type]  # it came from the contract
        pattern=rules_pb.NAME_PATTERN_LITERAL if name else rules_pb.NAME_PATTERN_ANY,
        name=name,
        actions=sorted(actions),  # type: ignore[arg-type]
    )
