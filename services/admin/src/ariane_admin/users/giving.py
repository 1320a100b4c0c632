"""What callers may make of users: never more than they are themselves."""

from __future__ import annotations

from collections.abc import Iterable

from ariane.common.v1 import access_rules_pb2 as rules
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit import ServiceError
from ariane_servicekit.rpc.calls import current_call


def check_may_touch(kind: int, user: str) -> None:
    """Refuse to touch super users to callers who are none: else every right would be theirs.

    Those of the settings are super users whatever the database says of them.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    call = current_call()
    if call is None or not call.is_judged or call.gate.is_super(call.caller):
        return
    if kind == rules.USER_KIND_SUPER or call.gate.is_super_name(user):
        raise ServiceError(
            ErrorReason.ERROR_REASON_ACCESS_DENIED, "only a super user makes or changes super users"
        )


def check_given(before: Iterable[rules.AccessEntry], after: Iterable[rules.AccessEntry]) -> None:
    """Refuse a change of entries that gives more than the caller may do.

    Raises:
        ServiceError: ACCESS_DENIED.
    """
    call = current_call()
    if call is None or not call.is_judged:
        return
    old = {entry.SerializeToString(deterministic=True) for entry in before}
    new = {entry.SerializeToString(deterministic=True) for entry in after}
    allow, deny = rules.ACCESS_DECISION_ALLOW, rules.ACCESS_DECISION_DENY
    given = map(rules.AccessEntry.FromString, sorted(new - old))
    freed = map(rules.AccessEntry.FromString, sorted(old - new))
    call.gate.check_given(call, (each for each in given if each.decision == allow))
    call.gate.check_given(call, (each for each in freed if each.decision == deny))
