"""What servicers ask about the rights of the call in work."""

from __future__ import annotations

from ariane_servicekit.rpc.calls import current_call
from ariane_servicekit.security.caller import Caller


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


def may(caller: Caller | None, action: int, resource: int, name: str) -> bool:
    """Whether a caller other than that of the call in work may do something now.

    Args:
        caller: The caller, such as that of an attached client. None: a caller inside the process.
        action: An ``Action``.
        resource: A ``Resource``.
        name: Of the thing.
    """
    call = current_call()
    return call is None or call.gate is None or call.gate.allows(caller, action, resource, name)
