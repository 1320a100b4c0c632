"""Seals secrets that the database keeps: AES-GCM under a key that is not in the database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ariane_servicekit import StartRefused

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class SecretSeal:
    """Seals and opens; what was sealed for one owner opens for no other."""

    def __init__(self, path: Path) -> None:
        """Read the key from its file; make the file if it is not there. Blocks.

        Raises:
            StartRefused: It cannot be read or made, or has no key.
        """
        try:
            key = _read_or_made(path)
        except OSError as error:
            raise StartRefused(f"secret_key_file: {path}: {error.strerror}") from None
        if len(key) != KEY_BYTES:
            raise StartRefused(f"secret_key_file: {path} must have {KEY_BYTES} bytes")
        self._cipher = AESGCM(key)

    def seal(self, secret: str, owner: str) -> bytes:
        """Seal a secret for its owner."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), owner.encode())

    def open(self, sealed: bytes, owner: str) -> str:
        """Open what was sealed.

        Raises:
            ValueError: It was sealed with another key or for another owner, or is damaged.
        """
        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, body, owner.encode()).decode()
        except InvalidTag:
            raise ValueError(f"what is sealed for {owner} does not open with this key") from None


def _read_or_made(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    key = os.urandom(KEY_BYTES)
    with open(handle, "wb") as file:  # noqa: PTH123 - of a handle.
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key
