"""Whether somebody has all the rights that an entry gives: nobody gives what he has not.

The answer is careful: where only several entries together would give as much, it is no.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit.security.rights.explained import network_of
from ariane_servicekit.security.rights.followed_names import is_of_system

_IMPLYING_GET: Final = (access.ACTION_PUBLISH, access.ACTION_SUBSCRIBE)


def covers(held: Sequence[rules.AccessEntry], wanted: rules.AccessEntry) -> bool:
    """Whether entries allow all that another one names, whatever that one decides.

    Args:
        held: Those of whoever gives; those that hold from where he calls.
        wanted: What is given.
    """
    return all(_covers(held, wanted, action) for action in wanted.actions)


def _covers(held: Sequence[rules.AccessEntry], wanted: rules.AccessEntry, action: int) -> bool:
    ways = (action, *_IMPLYING_GET) if action == access.ACTION_GET else (action,)
    same = [entry for entry in held if entry.resource == wanted.resource]
    return any(
        any(_allows_all(entry, wanted) for entry in _of(same, rules.ACCESS_DECISION_ALLOW, way))
        and not any(
            _meet(entry, wanted)
            for denied in (way, action)
            for entry in _of(same, rules.ACCESS_DECISION_DENY, denied)
        )
        for way in ways
    )


def _of(
    entries: Iterable[rules.AccessEntry], decision: int, action: int
) -> Iterable[rules.AccessEntry]:
    return (each for each in entries if each.decision == decision and action in each.actions)


def _allows_all(outer: rules.AccessEntry, inner: rules.AccessEntry) -> bool:
    """Whether an entry fits all names that another one fits, from everywhere."""
    begin, is_whole = _name_of(outer)
    name, is_one = _name_of(inner)
    if is_whole or (is_one and is_of_system(inner.resource, name)):
        fits = is_whole and is_one and begin == name
    else:
        fits = name.startswith(begin)
    return fits and _from_everywhere(outer.source_networks, inner.source_networks)


def _meet(one: rules.AccessEntry, other: rules.AccessEntry) -> bool:
    """Whether there is a name that both entries may fit."""
    begin, is_whole = _name_of(one)
    name, is_one = _name_of(other)
    return (not is_whole and name.startswith(begin)) or (
        name == begin if is_one else begin.startswith(name)
    )


def _name_of(entry: rules.AccessEntry) -> tuple[str, bool]:
    """What the names of an entry begin with, and whether that is the whole name."""
    return entry.name, entry.pattern == rules.NAME_PATTERN_LITERAL


def _from_everywhere(outer: Sequence[str], inner: Sequence[str]) -> bool:
    """Whether networks hold all addresses of others; none at all means every address."""
    if not outer:
        return True
    wide = [network_of(each) for each in outer]
    return bool(inner) and all(
        any(
            narrow.version == each.version and narrow.subnet_of(each)  # type: ignore[arg-type]
            for each in wide
        )
        for narrow in map(network_of, inner)
    )
