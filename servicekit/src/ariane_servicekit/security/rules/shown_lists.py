"""Lists in answers, cut to what a caller may see, who may see a part only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ariane.common.v1 import access_pb2 as access
from ariane_servicekit.rpc.pages import token_invalid
from ariane_servicekit.rpc.sealed_tokens import sealed, unsealed
from ariane_servicekit.security.rights.rights import Judge
from ariane_servicekit.security.rules.method_rules import Shown


def sees_all(rights: Judge) -> bool:
    """Whether a caller sees whole lists: who may see the cluster."""
    return rights.allows(access.ACTION_GET, access.RESOURCE_CLUSTER, "")


def unseal_token(request: Any) -> None:
    """Open the token in a request of a caller who sees a part only, and chooses no beginning.

    Raises:
        ServiceError: PAGE_TOKEN_INVALID.
    """
    token = getattr(request, "page_token", "")
    if token:
        try:
            request.page_token = unsealed(token)
        except ValueError:
            raise token_invalid(token) from None


def cut_to_rights(answer: Any, shown: Shown, rights: Judge) -> None:
    """Take the entries out of a list of an answer that a caller may not see, and seal its token."""
    if getattr(answer, "next_page_token", ""):
        answer.next_page_token = sealed(answer.next_page_token)
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
