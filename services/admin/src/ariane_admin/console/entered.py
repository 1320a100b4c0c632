"""Who makes a request, as the entrance has found out."""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.types import Scope

from ariane_servicekit.security.caller import Caller

_ENTERED: Final = "ariane_entered"


class Entered(NamedTuple):
    """Who makes a request."""

    token: str
    """Of the session; empty without one."""
    caller: Caller | None
    """None for a stranger."""


STRANGER: Final = Entered("", None)


def note_entered(scope: Scope, entered: Entered) -> None:
    """Note who makes a request."""
    scope.setdefault("state", {})[_ENTERED] = entered


def entered_by(request: Request) -> Entered:
    """Who makes a request; a stranger where nobody was asked."""
    entered: Entered = request.scope.get("state", {}).get(_ENTERED, STRANGER)
    return entered
