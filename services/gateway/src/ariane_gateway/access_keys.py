"""The access keys of RocketMQ clients: from admin, or in a cluster without admin from a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from ariane_servicekit import StartRefused, get_logger
from ariane_servicekit.security.tls.member_names import USER_WORD

_log = get_logger(__name__)


class AccessKey(NamedTuple):
    """A key that a client signs with."""

    user: str
    """The user that it proves a client to be."""
    secret: str
    """What is signed with."""
    ends_ms: int = 0
    """When it stops to hold, in ms since 1970; 0 for never."""
    by_address: bool = False
    """Whether brokers judge the user by the address that it calls from."""

    def __repr__(self) -> str:
        """Name it without the secret."""
        return f"AccessKey({self.user!r})"


class AccessKeys(Protocol):
    """The keys that hold now."""

    @property
    def known(self) -> bool:
        """Whether it is known which keys hold: a call that is refused otherwise may be repeated."""
        ...

    def find(self, access_key: str) -> AccessKey | None:
        """The key of a name; None if it does not hold."""
        ...

    async def start(self, changed: Callable[[], None]) -> None:
        """Learn the keys; ``changed`` is called when they are others."""
        ...

    async def stop(self) -> None:
        """Learn no more. Repeating is harmless."""
        ...

    def look(self) -> None:
        """Look whether something has changed; asked every few seconds."""
        ...


class KeysOfFile:
    """Keys of a file, each of the user of its own name; it is read again when it changes."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            StartRefused: It cannot be read, or a line is none.
        """
        self._path: Final = path
        self._state: tuple[int, int, int] | None = None
        self._keys: Mapping[str, AccessKey] = MappingProxyType({})
        self._changed: Callable[[], None] | None = None
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise StartRefused(f"access_keys: {error}") from None

    @property
    def known(self) -> bool:
        """Always: without the file, no gateway starts."""
        return True

    def find(self, access_key: str) -> AccessKey | None:
        """The key of a name; None if there is none."""
        return self._keys.get(access_key)

    async def start(self, changed: Callable[[], None]) -> None:
        """Say when the keys are others."""
        self._changed = changed

    async def stop(self) -> None:
        """Nothing to stop."""

    def look(self) -> None:
        """Read the file again if it has changed; one that does not fit changes nothing."""
        try:
            self._read()
        except (OSError, ValueError) as error:
            _log.warning("access_keys_not_read", cause=str(error))

    def _read(self) -> None:
        seen = self._path.stat()
        state = seen.st_mtime_ns, seen.st_size, seen.st_ino
        if state != self._state:
            self._keys = _keys_of(self._path.read_text(encoding="utf-8"))
            self._state = state
            _log.info("access_keys_read", count=len(self._keys))
            if self._changed is not None:
                self._changed()


def _keys_of(text: str) -> dict[str, AccessKey]:
    keys = {}
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.partition("#")[0].strip()
        if entry:
            access_key, colon, secret = (part.strip() for part in entry.partition(":"))
            if not (access_key and colon and secret):
                raise ValueError(f"line {number} is no ACCESS_KEY:SECRET_KEY")
            if re.fullmatch(USER_WORD, access_key) is None:
                raise ValueError(f"line {number}: an access key names a user: {USER_WORD}")
            keys[access_key] = AccessKey(access_key, secret)
    return keys
