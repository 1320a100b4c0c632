"""Lists in answers, cut to what a caller may see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ariane_servicekit.security.rights.rights import Judge
from ariane_servicekit.security.rules.method_rules import Shown


def cut_to_rights(answer: Any, shown: Shown, rights: Judge) -> None:
    """Take the entries out of a list of an answer that a caller may not see."""
    entries = getattr(answer, shown.field)
    kept = [
        entry
        for entry in entries
        if _all_allowed(rights, shown.action, shown.resource, shown.names(entry))
    ]
    if len(kept) < len(entries):
        # A message of the list belongs to the answer: copies outlive the deletion.
        copies = [_copy(entry) for entry in kept]
        del entries[:]
        entries.extend(copies)


def _all_allowed(rights: Judge, action: int, resource: int, names: Iterable[str]) -> bool:
    """Whether a caller has a right on all names; on no names nobody has one."""
    seen = False
    for name in names:
        if not rights.allows(action, resource, name):
            return False
        seen = True
    return seen


def _copy(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    copy = type(entry)()
    copy.CopyFrom(entry)
    return copy
