"""How a client reaches a cluster that is closed: TLS, and who it says it is."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.runtime.environment import tls_of_environment
from ariane_wire import Certificate, ClientTlsFiles

_NAME: Final = re.compile(r"ariane://([^/\s]+)/([^/\s]+)/([^/\s]+)")

BROKER_KINDS: Final = frozenset({"broker", "replica"})
"""Processes that a route may name as a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files for TLS, PEM. They are read again when they change: nothing is restarted.

    Attributes:
        ca: The authority of the processes of the cluster, ``members.pem`` of ``ariane tls``.
        certificate: The own certificate, which says who this is; None where credentials do.
        key: Its private key.
        oldest: Oldest version of TLS that is spoken.
    """

    ca: str | Path
    certificate: str | Path | None = None
    key: str | Path | None = None
    oldest: Literal["1.3", "1.2"] = "1.3"


TlsGiven: TypeAlias = Tls | str | Path | Literal[False] | None
"""Files for TLS, or the file of the authority alone; False for plain text; None for what
ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say, without them plain text."""


@dataclass(frozen=True, slots=True)
class Access:
    """How the connections of a client are made.

    Attributes:
        tls: Gives the context of each connection; None for plain text.
    """

    tls: ClientTlsFiles | None = None


PLAIN: Final = Access()


def access_of(tls: TlsGiven) -> Access:
    """How connections are made, by what the application says or else the environment.

    Raises:
        IllegalArgument: A file cannot be read, or is none.
    """
    return Access(tls_files(tls))


def tls_files(given: TlsGiven) -> ClientTlsFiles | None:
    """What gives contexts for connections; None for plain text.

    Raises:
        IllegalArgument: A file cannot be read, or is none.
    """
    tls: object = given
    if given is None:
        ca, certificate, key = tls_of_environment()
        if not ca and (certificate or key):
            raise IllegalArgument("ARIANE_TLS_CERTIFICATE and _KEY need ARIANE_TLS_CA")
        tls = Tls(ca=ca, certificate=certificate or None, key=key or None) if ca else False
    elif isinstance(given, str | Path):
        tls = Tls(ca=given)
    if tls is False:
        return None
    if not isinstance(tls, Tls):
        raise IllegalArgument(f"tls {given!r:.100}: a Tls, a file, False or None is expected")
    try:
        return ClientTlsFiles(tls.ca, certificate=tls.certificate, key=tls.key, oldest=tls.oldest)
    except (OSError, ValueError) as error:
        raise IllegalArgument(f"tls: {_in_words(error)}") from None


class ServerName(NamedTuple):
    """Which process a certificate names.

    Attributes:
        cluster: Its cluster.
        kind: ``broker``, ``namesrv``, ``admin`` and so on.
        name: Its name.
    """

    cluster: str
    kind: str
    name: str


def server_name(certificate: Certificate) -> ServerName:
    """The process that a server's certificate names.

    Raises:
        ConnectionError: It names none.
    """
    names = [found for uri in certificate.uris if (found := _NAME.fullmatch(uri))]
    if len(certificate.uris) != 1 or not names:
        raise ConnectionError("the certificate of the server names no process of a cluster")
    return ServerName(*names[0].groups())


class Expected(NamedTuple):
    """Which process must be at an address.

    Attributes:
        kinds: Empty for any.
        name: Empty for any.
    """

    kinds: Collection[str] = ()
    name: str = ""

    def check(self, shown: ServerName) -> None:
        """Check the process that is there.

        Raises:
            ConnectionError: It is another one.
        """
        if (self.kinds and shown.kind not in self.kinds) or (self.name and self.name != shown.name):
            meant = f"{' or '.join(sorted(self.kinds))} {self.name}".strip()
            raise ConnectionError(
                f"the certificate of the server is of {shown.kind} {shown.name}, not of {meant}"
            )


def _in_words(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
