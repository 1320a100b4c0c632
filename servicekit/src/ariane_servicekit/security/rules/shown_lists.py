"""Lists in answers, cut to what a caller may see, who may see a part only.

Such a caller can neither read nor make page tokens. A token names the last entry of its page, which
its caller may not see, perhaps; and who may begin a page anywhere finds every name by halves. Only
the process that has sealed a token reads it: elsewhere, and after a restart, a list begins anew.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ariane.common.v1 import access_pb2 as access
from ariane_servicekit.rpc.pages import token_invalid
from ariane_servicekit.security.rights.rights import Judge
from ariane_servicekit.security.rules.method_rules import Shown

_MARK: Final = "~"
"""Before a sealed token: where a list is handed on, one may be sealed by each process."""

_NONCE_BYTES: Final = 12


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
            request.page_token = _unsealed(token)
        except ValueError:
            raise token_invalid(token) from None


def cut_to_rights(answer: Any, shown: Shown, rights: Judge) -> None:
    """Take the entries out of a list of an answer that a caller may not see, and seal its token."""
    if getattr(answer, "next_page_token", ""):
        answer.next_page_token = _sealed(answer.next_page_token)
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


def _sealed(token: str) -> str:
    """The token in its sealed form."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    octets = nonce + _cipher().encrypt(nonce, token.encode(), None)
    return _MARK + base64.urlsafe_b64encode(octets).decode()


def _unsealed(token: str) -> str:
    """The token as it was made.

    Raises:
        ValueError: It was not sealed here.
    """
    if not token.startswith(_MARK):
        raise ValueError("not sealed")
    octets = base64.b64decode(token.removeprefix(_MARK), altchars=b"-_", validate=True)
    try:
        return _cipher().decrypt(octets[:_NONCE_BYTES], octets[_NONCE_BYTES:], None).decode()
    except InvalidTag:
        raise ValueError("not sealed here") from None


@cache
def _cipher() -> AESGCM:
    return AESGCM(secrets.token_bytes(32))
