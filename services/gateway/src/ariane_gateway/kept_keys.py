"""The keys that admin told, on disk for a start while admin is away.

::

    nonce (12 octets)   sealed by AES-GCM: ms of admin's last word (8 octets), then the keys

They are sealed with a key that is made of the gateway's own private key. Who has that one is told
all keys by admin, so that the file gives nobody more than he has.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from google.protobuf.message import DecodeError

from ariane.admin.v1.gateway_key_service_pb2 import WatchGatewayKeysResponse
from ariane_servicekit import get_logger
from ariane_servicekit.files import write_whole

_NONCE_BYTES: Final = 12
_TIME_BYTES: Final = 8
_PURPOSE: Final = b"ArianeMQ: access keys of a gateway, 1"

_log = get_logger(__name__)


class KeptKeys(NamedTuple):
    """What a file has."""

    keys: WatchGatewayKeysResponse
    """All keys."""
    heard_ms: int
    """When admin had its last word on them, in ms since 1970."""


class SealedKeys:
    """Keeps keys, sealed. All calls block."""

    def __init__(self, path: Path, private_key: Path) -> None:
        """Name the files.

        Args:
            path: Of the keys.
            private_key: Of the gateway, PEM; read anew each time, since it may be replaced.
        """
        self._path = path
        self._private_key = private_key

    def read(self) -> KeptKeys | None:
        """Read the file; None if there is none, or none that opens, which is logged."""
        try:
            sealed = self._path.read_bytes()
            nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
            content = self._cipher().decrypt(nonce, body, _PURPOSE)
            kept = WatchGatewayKeysResponse.FromString(content[_TIME_BYTES:])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, InvalidTag, DecodeError) as error:
            cause = str(error) or "it was sealed for another tls_key, or is damaged"
            _log.warning("access_keys_not_read", path=str(self._path), cause=cause)
            return None
        return KeptKeys(kept, int.from_bytes(content[:_TIME_BYTES], "big"))

    def save(self, kept: KeptKeys) -> None:
        """Write the file. What cannot be written is logged: the keys hold all the same."""
        content = kept.heard_ms.to_bytes(_TIME_BYTES, "big") + kept.keys.SerializeToString()
        nonce = os.urandom(_NONCE_BYTES)
        try:
            sealed = self._cipher().encrypt(nonce, content, _PURPOSE)
            write_whole(self._path, nonce + sealed)
            self._path.chmod(0o600)
        except (OSError, ValueError) as error:
            _log.error("access_keys_unsaved", path=str(self._path), cause=str(error))

    def _cipher(self) -> AESGCM:
        private = load_pem_private_key(self._private_key.read_bytes(), None)
        octets = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return AESGCM(HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(octets))
