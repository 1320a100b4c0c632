"""Rights: what one user may do, compiled from entries so that a question is one look-up.

An answer is remembered. A new one costs a look at the literal names and, for each length that a
prefix has, at the prefixes of that length: the number of entries does not matter.

Denial wins, whatever the order and however narrow. What no entry fits is denied. PUBLISH and
SUBSCRIBE imply GET on the same name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit.security.rights.followed_names import is_for_all, is_of_system, judged

ANSWERS_MAX: Final = 1024
"""Answers that are remembered of one user; all are forgotten when there are more."""

NAME_LENGTH_MAX: Final = 255
"""Characters of the longest name of a thing. No answer is remembered for longer ones: whoever calls
chooses them."""

_IMPLYING_GET: Final = (access.ACTION_PUBLISH, access.ACTION_SUBSCRIBE)


class Judge(Protocol):
    """Answers whether a caller may do something."""

    def allows(self, action: int, resource: int, name: str) -> bool:
        """Whether it may."""
        ...

    def allows_some(self, action: int, resource: int) -> bool:
        """Whether it may for some name, as far as entries that allow say."""
        ...


class Everything:
    """The rights of a super user."""

    def allows(self, action: int, resource: int, name: str) -> bool:  # noqa: ARG002
        """Whether it may: always."""
        return True

    def allows_some(self, action: int, resource: int) -> bool:  # noqa: ARG002
        """Whether it may for some name: always."""
        return True


class Both:
    """What two judges allow: a user's rights, and what a delegation leaves of them."""

    def __init__(self, *judges: Judge) -> None:
        self._judges = judges

    def allows(self, action: int, resource: int, name: str) -> bool:
        """Whether all of them allow it."""
        return all(judge.allows(action, resource, name) for judge in self._judges)

    def allows_some(self, action: int, resource: int) -> bool:
        """Whether each of them allows it for some name."""
        return all(judge.allows_some(action, resource) for judge in self._judges)


class Rights:
    """The rights of one user from one address."""

    def __init__(self, entries: Iterable[rules.AccessEntry]) -> None:
        """Compile entries; those for other networks must be left out."""
        self._allowed: dict[tuple[int, int], _Names] = {}
        self._denied: dict[tuple[int, int], _Names] = {}
        for entry in entries:
            side = self._denied
            if entry.decision == rules.ACCESS_DECISION_ALLOW:
                side = self._allowed
            for action in entry.actions:
                side.setdefault((action, entry.resource), _Names()).add(entry)
        self._answers: dict[tuple[int, int, str], bool] = {}

    def allows(self, action: int, resource: int, name: str) -> bool:
        """Whether the user may do something.

        Args:
            action: An ``Action``.
            resource: A ``Resource``.
            name: Of the thing; empty for the cluster.
        """
        if len(name) > NAME_LENGTH_MAX:
            return self._decide(*judged(action, resource, name))
        key = (action, resource, name)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[key] = self._decide(*judged(action, resource, name))
        return answer

    def allows_some(self, action: int, resource: int) -> bool:
        """Whether an entry allows the user something, of whatever name."""
        return (action, resource) in self._allowed

    def _decide(self, action: int, resource: int, name: str) -> bool:
        whole = is_of_system(resource, name)
        if _fits(self._denied, action, resource, name, whole=whole):
            return False
        if is_for_all(action, resource, name):
            return True
        if _fits(self._allowed, action, resource, name, whole=whole):
            return True
        if action != access.ACTION_GET:
            return False
        return any(self._decide(implying, resource, name) for implying in _IMPLYING_GET)


class _Names:
    """The names that entries of one action, resource and decision fit."""

    __slots__ = ("_all", "_literals", "_prefixes")

    def __init__(self) -> None:
        self._all = False
        self._literals: set[str] = set()
        self._prefixes: dict[int, set[str]] = {}

    def add(self, entry: rules.AccessEntry) -> None:
        if entry.pattern == rules.NAME_PATTERN_ANY:
            self._all = True
        elif entry.pattern == rules.NAME_PATTERN_LITERAL:
            self._literals.add(entry.name)
        elif entry.pattern == rules.NAME_PATTERN_PREFIX:
            self._prefixes.setdefault(len(entry.name), set()).add(entry.name)

    def fit(self, name: str, *, whole: bool) -> bool:
        if name in self._literals:
            return True
        if whole:
            return False
        return self._all or any(
            name[:length] in prefixes for length, prefixes in self._prefixes.items()
        )


def _fits(
    side: dict[tuple[int, int], _Names], action: int, resource: int, name: str, *, whole: bool
) -> bool:
    names = side.get((action, resource))
    return names is not None and names.fit(name, whole=whole)
