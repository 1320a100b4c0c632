"""The access keys of RocketMQ clients, from a file that is read again when it changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ariane_servicekit import StartRefused, get_logger
from ariane_servicekit.security.member_names import USER_WORD

_log = get_logger(__name__)


class AccessKeys:
    """The secret key of each access key."""

    def __init__(self, path: Path | None) -> None:
        """Read the file.

        Args:
            path: The file; None if calls need no signature.

        Raises:
            StartRefused: It cannot be read, or a line is none.
        """
        self._path = path
        self._state: tuple[int, int, int] | None = None
        self._keys: Mapping[str, str] = MappingProxyType({})
        try:
            self.look()
        except (OSError, ValueError) as error:
            raise StartRefused(f"access_keys: {error}") from None

    @property
    def asked(self) -> bool:
        """Whether calls must be signed."""
        return self._path is not None

    @property
    def all(self) -> Mapping[str, str]:
        """The secret key of each access key."""
        return self._keys

    def look(self) -> None:
        """Read the file again if it has changed.

        Raises:
            OSError: It cannot be read.
            ValueError: A line is none.
        """
        if self._path is None:
            return
        seen = self._path.stat()
        state = seen.st_mtime_ns, seen.st_size, seen.st_ino
        if state != self._state:
            self._keys = _keys_of(self._path.read_text(encoding="utf-8"))
            self._state = state
            _log.info("access_keys_read", count=len(self._keys))

    def look_again(self) -> None:
        """As ``look``; a file that does not fit changes nothing."""
        try:
            self.look()
        except (OSError, ValueError) as error:
            _log.warning("access_keys_not_read", cause=str(error))


def _keys_of(text: str) -> dict[str, str]:
    keys = {}
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.partition("#")[0].strip()
        if said:
            access_key, colon, secret = said.partition(":")
            if not (access_key.strip() and colon and secret.strip()):
                raise ValueError(f"line {number} is no ACCESS_KEY:SECRET_KEY")
            if re.fullmatch(USER_WORD, access_key.strip()) is None:
                raise ValueError(f"line {number}: an access key names a user: {USER_WORD}")
            keys[access_key.strip()] = secret.strip()
    return keys
