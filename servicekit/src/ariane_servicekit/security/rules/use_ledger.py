"""What users did and were refused, as far as a process remembers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit.security.limits.fair_table import FairTable
from ariane_servicekit.security.rights.rights import NAME_LENGTH_MAX

USES_MAX: Final = 10_000
"""Kinds of use that are remembered. Users with most lose those that were not seen for longest: who
asks for ever new names takes nothing of what others did."""

REFUSALS_MAX: Final = 1000
"""Refusals that are remembered; callers with most lose their oldest."""


class Use(NamedTuple):
    """One kind of thing that a user does; the user is empty for callers that are not known."""

    user: str
    action: int
    resource: int
    name: str


@dataclass(slots=True)
class UseCount:
    """How often something was asked for, and how often it was or would have been refused."""

    count: int = 0
    refused_count: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """One call that was refused, or would have been."""

    request_id: str
    """Names the call."""
    time_ms: int
    """When, in milliseconds since 1970."""
    method: str
    """The method."""
    caller: str
    """Who called, for people."""
    source_address: str
    """From where."""
    use: Use | None
    """What it lacked; None if it was refused for who it is."""
    cause: str
    """Why, for people."""
    entry: rules.AccessEntry | None
    """The entry that denies; None if none allows."""
    let_through: bool
    """Whether the call was let through."""


class UseLedger:
    """Counts uses, and remembers the latest refusals; bounded, whatever callers do."""

    def __init__(self) -> None:
        self.refused_count = 0
        """Calls that were or would have been refused."""
        self._uses: FairTable[Use, UseCount] = FairTable(USES_MAX)
        self._refusals: FairTable[str, Refusal] = FairTable(REFUSALS_MAX)

    def used(self, use: Use, *, refused: bool) -> None:
        """Count a use. Of a name that is too long for a thing, the beginning counts."""
        use = use._replace(name=use.name[:NAME_LENGTH_MAX])
        counted = self._uses.use(use.user, use)
        if counted is None:
            counted = UseCount()
            self._uses.add(use.user, use, counted)
        counted.count += 1
        counted.refused_count += refused

    def refused(self, refusal: Refusal) -> None:
        """Remember a refusal."""
        self.refused_count += 1
        if self._refusals.get(refusal.request_id) is None:
            self._refusals.add(refusal.caller, refusal.request_id, refusal)

    def uses(self, user: str = "") -> list[tuple[Use, UseCount]]:
        """Return what was counted, of one user or of all, in order."""
        found = [(use, n) for use, n in self._uses.items() if not user or use.user == user]
        return sorted(found, key=lambda each: each[0])

    def refusal(self, request_id: str) -> Refusal | None:
        """Return the refusal of a call, if it is remembered."""
        return self._refusals.get(request_id)
