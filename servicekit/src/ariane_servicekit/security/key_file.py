"""Public keys of users in a file: one line each, ``USER CREDENTIAL_ID BASE64``.

For clusters without admin, and for the first user. It is read again when it changes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ariane_servicekit.errors import StartRefused
from ariane_servicekit.observability.logs import get_logger
from ariane_servicekit.security.logins import PublicKey
from ariane_servicekit.security.member_names import is_user_word

CREDENTIAL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
KEY_BYTES: Final = 32

_log = get_logger(__name__)


class KeyFile:
    """Finds keys in a file, and then elsewhere."""

    def __init__(self, path: Path | None, elsewhere: Callable[[str], PublicKey | None]) -> None:
        """Read the file.

        Raises:
            StartRefused: It cannot be read.
        """
        self._path = path
        self._elsewhere = elsewhere
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, PublicKey] = {}
        if path is not None:
            try:
                self._read(path)
            except (OSError, ValueError) as error:
                raise StartRefused(f"login_keys: {error}") from None

    def __call__(self, credential_id: str) -> PublicKey | None:
        """Find a key by the id of its credential; None if there is none."""
        return self._keys.get(credential_id) or self._elsewhere(credential_id)

    def look(self) -> None:
        """Read the file again if it has changed. A line that is none leaves all as it was."""
        if self._path is None:
            return
        try:
            self._read(self._path)
        except (OSError, ValueError) as error:
            _log.warning("login_keys_not_read", cause=str(error))

    def _read(self, path: Path) -> None:
        stat = path.stat()
        seen = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if seen != self._seen:
            self._keys = _parsed(path.read_text("utf-8"))
            self._seen = seen


def _parsed(text: str) -> dict[str, PublicKey]:
    keys = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            user, credential_id, encoded = words
            key = base64.b64decode(encoded, validate=True)
        except (ValueError, binascii.Error):
            raise ValueError(f"line {number}: USER CREDENTIAL_ID BASE64 is expected") from None
        fits = is_user_word(user) and CREDENTIAL_ID.fullmatch(credential_id)
        if not fits or len(key) != KEY_BYTES or credential_id in keys:
            raise ValueError(f"line {number}: a name is illegal or there twice, or the key is none")
        keys[credential_id] = PublicKey(user, key)
    return keys
