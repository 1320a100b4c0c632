"""Page tokens that nobody can read or make: of callers who see a part of a list only.

A token names the last entry of its page, which its caller may not see, perhaps; and who may begin a
page anywhere finds every name by halves. Only the process that has sealed a token reads it:
elsewhere, and after a restart, a list begins anew.
"""

from __future__ import annotations

import base64
import secrets
from functools import cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MARK: Final = "~"
"""Before a sealed token: where a list is handed on, one may be sealed by each process."""

_NONCE_BYTES: Final = 12


def sealed(token: str) -> str:
    """The token in its sealed form."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    octets = nonce + _cipher().encrypt(nonce, token.encode(), None)
    return _MARK + base64.urlsafe_b64encode(octets).decode()


def unsealed(token: str) -> str:
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
