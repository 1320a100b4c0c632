"""How a client reaches a cluster that is closed: TLS, and who it says it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.runtime.environment import credentials_of_environment, tls_of_environment
from ariane_wire import Certificate, ClientTlsFiles

_CREDENTIAL_LINE: Final = re.compile(r"^credential: ([A-Za-z0-9_-]{1,64})$", re.MULTILINE)
_NAME: Final = re.compile(r"ariane://([^/\s]+)/([^/\s]+)/([^/\s]+)")

CERTIFICATE_OF: Final = "the certificate of the server is of"
"""So begins what is wrong with a server that is another one, by its certificate."""

BROKER_KINDS: Final = frozenset({"broker", "replica"})
"""Processes that a route may name as a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files for TLS, PEM. They are read again when they change: nothing is restarted."""

    ca: str | Path
    """The authority of the processes of the cluster, ``members.pem`` of ``ariane tls``; or the text
    of this file."""
    certificate: str | Path | None = None
    """The own certificate, which says who this is; None where credentials do."""
    key: str | Path | None = None
    """Its private key."""
    oldest: Literal["1.3", "1.2"] = "1.3"
    """Oldest version of TLS that is spoken."""
    acting_for: Callable[[], str] | None = None
    """Of a member of the cluster: returns the user for whom a call is made, or an empty text; asked
    for each call. None: no call is made for a user."""


class PrivateKey(NamedTuple):
    """A key that proves who a user is."""

    credential_id: str
    """The id of the credential."""
    sign: Callable[[bytes], bytes]
    """Signs a text."""
    delegation: tuple[bytes, bytes] | None = None
    """Terms and their signature, for a key that another one has let log in for it."""

    def __repr__(self) -> str:
        """Name it without what it signs with."""
        return f"PrivateKey({self.credential_id!r})"


CredentialSource: TypeAlias = Callable[[], PrivateKey | str]
"""Gives a key, or a token of an OpenID provider, for each login."""

CredentialsGiven: TypeAlias = str | Path | CredentialSource | None
"""The file of a key that ``ariane credential create`` has made, or a function that gives a token of
an OpenID provider, or a key; both are asked for each login. None for the file that
ARIANE_CREDENTIALS names, without it none."""


class KeyFile:
    """A file with a private key, which is read for each login."""

    def __init__(self, path: str | Path) -> None:
        """Read it once.

        Raises:
            IllegalArgument: It cannot be read, or is none.
        """
        self._path = Path(path)
        self()

    def __call__(self) -> PrivateKey:
        """The key that is in it now.

        Raises:
            IllegalArgument: It cannot be read, or is none.
        """
        try:
            text = self._path.read_bytes()
        except OSError as error:
            raise IllegalArgument(f"credentials: {self._path}: {error.strerror}") from None
        return private_key(text, f"credentials: {self._path}")


def private_key(text: bytes, source: str) -> PrivateKey:
    """The key in a file that ``ariane credential create`` has made.

    Args:
        text: What is in the file.
        source: Names it in errors, which never have the text: it is secret.

    Raises:
        IllegalArgument: It is none.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - see below
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - only for keys
            load_pem_private_key,
        )
    except ImportError:
        raise IllegalArgument(
            "keys need cryptography, which is not installed: pip install 'ariane-sdk[credentials]'"
        ) from None
    try:
        head, begin, body = text.partition(b"-----BEGIN")
        found = _CREDENTIAL_LINE.search(head.decode("ascii"))
        key = load_pem_private_key(begin + body, None)
    except (ValueError, TypeError):
        raise IllegalArgument(
            f"{source}: not a file that ariane credential create has made"
        ) from None
    if found is None or not isinstance(key, Ed25519PrivateKey):
        raise IllegalArgument(f"{source}: not a file that ariane credential create has made")
    return PrivateKey(found[1], key.sign)


TlsGiven: TypeAlias = Tls | str | Path | Literal[False] | None
"""Files for TLS, or the file of the authority alone; False for plain text; None for what
ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say, without them plain text."""


@dataclass(frozen=True, slots=True)
class Access:
    """How the connections of a client are made."""

    tls: ClientTlsFiles | None = None
    """Gives the context of each connection; None for plain text."""
    credentials: CredentialSource | None = None
    """Gives what is proved by; None for nothing."""
    acting_for: Callable[[], str] | None = None
    """As in ``Tls``."""


PLAIN: Final = Access()


def access_of(tls: TlsGiven, credentials: CredentialsGiven = None) -> Access:
    """How connections are made, by what the application says or else the environment.

    Raises:
        IllegalArgument: A file cannot be read, or is none.
    """
    acting_for = tls.acting_for if isinstance(tls, Tls) else None
    return Access(tls_files(tls), credential_source(credentials), acting_for)


def credential_source(given: CredentialsGiven) -> CredentialSource | None:
    """What gives a key or a token for each login; None for none.

    Raises:
        IllegalArgument: A file cannot be read, or is none.
    """
    chosen: object = credentials_of_environment() if given is None else given
    if not chosen:
        return None
    if isinstance(chosen, str | Path):
        return KeyFile(chosen)
    if callable(chosen):
        return partial(_token_of, chosen)
    raise IllegalArgument(f"credentials {given!r:.100}: a file, a function or None is expected")


def _token_of(ask: Callable[[], object]) -> PrivateKey | str:
    token = ask()
    if isinstance(token, PrivateKey):
        return token
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise IllegalArgument("the function of credentials gave no token: a text is expected")
    return token


def tls_files(given: TlsGiven) -> ClientTlsFiles | None:
    """What gives contexts for connections; None for plain text.

    Raises:
        IllegalArgument: A file cannot be read, or is none.
    """
    tls: object = given
    if given is None:
        tls = tls_from_environment() or False
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


def tls_from_environment() -> Tls | None:
    """The files that the environment names; None if it names none.

    Raises:
        IllegalArgument: It names some without the authority.
    """
    ca, certificate, key = tls_of_environment()
    if not ca and (certificate or key):
        raise IllegalArgument(
            "tls: a certificate needs the authority of the cluster, too: ca, or ARIANE_TLS_CA"
        )
    return Tls(ca=ca, certificate=certificate or None, key=key or None) if ca else None


class ServerName(NamedTuple):
    """Which process a certificate names."""

    cluster: str
    """Its cluster."""
    kind: str
    """``broker``, ``namesrv``, ``admin`` and so on."""
    name: str
    """Its name."""


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
    """Which process must be at an address."""

    kinds: Collection[str] = ()
    """Empty for any."""
    name: str = ""
    """Empty for any."""
    cluster: str = ""
    """By the names of routes; empty for any. Certificates have names of clusters of their own, and
    each cluster an authority."""

    def check(self, shown: ServerName) -> None:
        """Check the process that is there.

        Raises:
            ConnectionError: It is another one.
        """
        if (self.kinds and shown.kind not in self.kinds) or (self.name and self.name != shown.name):
            raise ConnectionError(f"{CERTIFICATE_OF} {shown.kind} {shown.name}, not of {self}")

    def check_stated(self, actual: ServerName) -> None:
        """Check what the process there tells of itself in plain text.

        Raises:
            ConnectionError: It is another one.
        """
        # Where any of a kind is right, another kind refuses the calls by itself.
        wrong = (
            self.name
            and (self.name != actual.name or (self.kinds and actual.kind not in self.kinds))
        ) or (self.cluster and self.cluster != actual.cluster)
        if wrong:
            there = f"{actual.kind} {actual.name}".strip()
            raise ConnectionError(
                f"the server is {_of(there, actual.cluster)}, not {_of(str(self), self.cluster)}"
            )

    def __str__(self) -> str:
        """Name it for people."""
        return f"{' or '.join(sorted(self.kinds))} {self.name}".strip()


def _of(name: str, cluster: str) -> str:
    return f"{name} of cluster {cluster}" if cluster else name


def _in_words(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def is_loopback(address: str) -> bool:
    """Whether an address, "host:port", is of this machine, judged by its text alone."""
    host = address.rpartition(":")[0].strip("[]")
    return host in {"localhost", "::1"} or re.fullmatch(r"127(\.\d+){3}", host) is not None
