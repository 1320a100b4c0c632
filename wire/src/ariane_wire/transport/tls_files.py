"""Contexts of clients from files that are read again when they change."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from ariane_wire.transport.tls import TlsContext, Version, client_tls, is_pem

_log: Final = logging.getLogger("ariane_wire.client")


class ClientTlsFiles:
    """Gives the context of each next connection; see ``client_tls``.

    Files that do not fit, because they are just being replaced, change nothing: they are read again
    for the connection after.
    """

    def __init__(
        self,
        authorities: str | Path | None = None,
        *,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        oldest: Version = "1.3",
    ) -> None:
        """Read the files.

        Raises:
            OSError: A file cannot be read, or is none (``ssl.SSLError``).
            ValueError: A certificate without a key, or the reverse.
        """
        self._authorities = authorities
        self._certificate = certificate
        self._key = key
        self._oldest = oldest
        self._state = self._look()
        self._context = self._read()

    def __call__(self) -> TlsContext:
        """The context of the next connection."""
        try:
            state = self._look()
            if state != self._state:
                self._context = self._read()
                self._state = state
        except (OSError, ValueError) as error:
            _log.warning("certificates are not read again: %s", error)
        return self._context

    def _read(self) -> TlsContext:
        return client_tls(
            self._authorities,
            certificate=self._certificate,
            key=self._key,
            oldest=self._oldest,
        )

    def _look(self) -> list[tuple[int, int, int]]:
        files = (self._authorities, self._certificate, self._key)
        seen = [Path(file).stat() for file in files if file is not None and not is_pem(file)]
        return [(each.st_mtime_ns, each.st_size, each.st_ino) for each in seen]
