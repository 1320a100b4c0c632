"""The certificates of a process: what it shows, whom it trusts, and who calls it.

Files are looked at for each new connection, and now and then; one that has changed is read again.
Files that do not fit, because they are just being replaced, are tried again at the next look.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from cryptography import x509

from ariane_servicekit.configuration.tls_settings import TlsSettings
from ariane_servicekit.errors import StartRefused
from ariane_servicekit.observability.logs import get_logger
from ariane_servicekit.security.caller import BROKERS, Caller, CallerKind, MemberKind
from ariane_servicekit.security.tls.authority import names_of
from ariane_servicekit.security.tls.certificate_folder import is_issued_by
from ariane_servicekit.security.tls.member_names import USER_WORD, MemberName, user_uri
from ariane_wire import Certificate, CheckServer, Identity, TlsContext, client_tls, server_tls

_log = get_logger(__name__)

KINDS: Final = MappingProxyType(
    {
        "broker": BROKERS,
        "namesrv": frozenset({MemberKind.NAME_SERVER}),
        "txn-checker": frozenset({MemberKind.CHECKER}),
        "filter": frozenset({MemberKind.FILTER}),
        "gateway": frozenset({MemberKind.GATEWAY}),
        "admin": frozenset({MemberKind.ADMIN}),
    }
)
"""The kinds of process that a service may be, by its name."""

MEMBER_TLS: Final[ContextVar[ServiceTls | None]] = ContextVar("ariane_member_tls", default=None)
"""That of the process which this code runs for: several may live in one process of a test."""

UserOfUri: TypeAlias = Callable[[str], str]
"""The user that a URI names; empty if it names none."""


class WrongServer(ConnectionError):
    """The server is not the process that is meant."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What the files say."""

    server: TlsContext
    client: TlsContext
    own: MemberName
    authorities: tuple[x509.Certificate, ...]
    trusted: tuple[x509.Certificate, ...]
    """Those of members, and those of users."""
    ends: datetime
    """When the first certificate ends that others need here: the own one or an authority."""


class TlsFiles(NamedTuple):
    """Where the files of a process are."""

    certificate: Path
    key: Path
    members: Path
    users: Path | None
    oldest: Literal["1.3", "1.2"]


class ServiceTls:
    """Of one process."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read the files.

        Raises:
            StartRefused: A file cannot be read, or does not fit the others.
        """
        self.files = TlsFiles(
            _given(settings.tls_certificate),
            _given(settings.tls_key),
            _given(settings.tls_members),
            settings.tls_users,
            settings.tls_oldest,
        )
        """Where its files are."""
        self._state: tuple[tuple[int, int, int], ...] = ()
        self._trouble = ""
        self.readings = 1
        """How often the files were read."""
        try:
            self._state = self._file_states()
            self._held = self._read()
        except (OSError, ValueError) as error:
            raise StartRefused(f"tls: {_in_words(error)}") from None
        self.own = self._held.own
        """The name of this process."""
        self._user_of: UserOfUri = user_rule(settings.tls_user_name, self.own.cluster)

    # What is shown.

    def server_context(self) -> TlsContext:
        """The context of the next connection that comes."""
        self.reread()
        return self._held.server

    def client_context(self) -> TlsContext:
        """The context of the next connection that is made."""
        self.reread()
        return self._held.client

    def page_context(self) -> TlsContext:
        """A context for pages of HTTP: whoever reads them has a certificate."""
        context = self._server_context()
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def ends(self) -> datetime:
        """When the first certificate ends that this process needs: its own, or its authority's."""
        return self._held.ends

    def check_is_of(self, service_name: str, member_name: str) -> None:
        """Check that the certificate names a process of a kind.

        Args:
            service_name: The service; one without a kind of its own has any certificate.
            member_name: The name that it has among its kind; empty for any.

        Raises:
            StartRefused: It names another one.
        """
        kinds = KINDS.get(service_name, frozenset())
        if kinds and self.own.kind not in kinds:
            meant = " or ".join(sorted(kind.value for kind in kinds))
            raise StartRefused(f"tls_certificate is of {self.own}, and this process is a {meant}")
        if member_name and self.own.name != member_name:
            raise StartRefused(
                f"tls_certificate is of {self.own}, and this process is {member_name}"
            )

    def reread(self) -> None:
        """Read the files again if one has changed."""
        try:
            state = self._file_states()
            if state == self._state:
                return
            held = self._read()
        except (OSError, ValueError) as error:
            trouble = _in_words(error)
            if trouble != self._trouble:
                _log.warning("certificates_not_read", cause=trouble)
            self._trouble = trouble
            return
        self._state, self._held, self._trouble = state, held, ""
        self.readings += 1
        _log.info("certificates_read", name=str(held.own), ends=held.ends.isoformat())

    # Who is there.

    def caller(self, identity: Identity) -> Caller:
        """Who is at the other end of a connection, by its certificate."""
        certificate = identity.certificate
        if certificate is None:
            return Caller(CallerKind.ANONYMOUS, identity.peer)
        authorities = self._held.authorities
        member = member_of(certificate, authorities)
        if member is not None and member.cluster == self.own.cluster:
            return Caller(
                CallerKind.MEMBER,
                identity.peer,
                member.name,
                member_kind=member.kind,
                cluster=member.cluster,
            )
        user = only_user_of(certificate, authorities, self._user_of)
        if not user:
            return Caller(CallerKind.ANONYMOUS, identity.peer)
        return Caller(CallerKind.USER, identity.peer, user)

    def is_trusted(self, certificate: Certificate) -> bool:
        """Whether an authority that is trusted now has signed a certificate itself."""
        return is_issued_by(x509.load_der_x509_certificate(certificate.der), self._held.trusted)

    def checker(self, kinds: Collection[MemberKind], name: str) -> CheckServer:
        """A check that a server is a member of the cluster.

        Args:
            kinds: That it may be of; empty for any.
            name: That it must have; empty for any.
        """

        def check(certificate: Certificate) -> None:
            member = member_of(certificate, self._held.authorities)
            if member is None or member.cluster != self.own.cluster:
                raise WrongServer(f"the server is no process of the cluster {self.own.cluster}")
            if (kinds and member.kind not in kinds) or (name and member.name != name):
                meant = " or ".join(sorted(kind.value for kind in kinds)) or "process"
                raise WrongServer(
                    f"the certificate of the server is of {member.kind.value} {member.name}, not of"
                    f" {meant} {name}".rstrip()
                )

        return check

    # The files.

    def _file_states(self) -> tuple[tuple[int, int, int], ...]:
        seen = [file.stat() for file in self.files[:4] if isinstance(file, Path)]
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in seen)

    def _server_context(self) -> TlsContext:
        certificate, key, members, users, oldest = self.files
        context = server_tls(certificate, key, client_authorities=members, oldest=oldest)
        if users is not None:
            context.load_verify_locations(users)
        return context

    def _read(self) -> _Held:
        certificate, key, members, users, oldest = self.files
        leaf = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
        authorities = tuple(x509.load_pem_x509_certificates(members.read_bytes()))
        trusted = list(authorities)
        if users is not None:
            trusted += x509.load_pem_x509_certificates(users.read_bytes())
        own = _name_of(leaf, certificate)
        if not is_issued_by(leaf, authorities):
            raise ValueError(f"{certificate} is not signed by an authority of {members}")
        return _Held(
            server=self._server_context(),
            client=client_tls(members, certificate=certificate, key=key, oldest=oldest),
            own=own,
            authorities=authorities,
            trusted=tuple(trusted),
            ends=min(leaf.not_valid_after_utc, authorities[0].not_valid_after_utc),
        )


def _name_of(leaf: x509.Certificate, file: Path) -> MemberName:
    uris, _ = names_of(leaf)
    names = [name for uri in uris if (name := MemberName.parse(uri)) is not None]
    if len(uris) != 1 or not names:
        raise ValueError(f"{file} must name one process: ariane://CLUSTER/KIND/NAME")
    return names[0]


def _given(file: Path | None) -> Path:
    if file is None:
        raise StartRefused("tls: certificate, key and members belong together")
    return file


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def user_rule(pattern: str, cluster: str) -> UserOfUri:
    """The rule by which URIs name users.

    Args:
        pattern: With ``{user}`` for the name and ``*`` for any text without a slash; empty for the
            URIs that ``ariane tls`` writes.
        cluster: The own cluster.
    """
    text = pattern or user_uri(cluster, "{user}")
    before, _, after = text.partition("{user}")

    def quoted(part: str) -> str:
        return "[^/]*".join(map(re.escape, part.split("*")))

    rule = re.compile(f"{quoted(before)}(?P<user>{USER_WORD}){quoted(after)}")

    def user_of(uri: str) -> str:
        found = rule.fullmatch(uri)
        return "" if found is None else found["user"]

    return user_of


def member_of(
    certificate: Certificate, authorities: Sequence[x509.Certificate]
) -> MemberName | None:
    """The member that a certificate names; None if it is no member's.

    Only a certificate with one URI, signed by an authority of members itself, is: a user's may say
    what it likes.
    """
    if len(certificate.uris) != 1:
        return None
    name = MemberName.parse(certificate.uris[0])
    if name is None:
        return None
    leaf = x509.load_der_x509_certificate(certificate.der)
    return name if is_issued_by(leaf, authorities) else None


def only_user_of(
    certificate: Certificate, authorities: Sequence[x509.Certificate], user_of: UserOfUri
) -> str:
    """The one user that a certificate names; empty if it names none, or several.

    A certificate of the members' authority names no user.
    """
    users = {user for uri in certificate.uris if (user := user_of(uri))}
    if len(users) != 1:
        return ""
    leaf = x509.load_der_x509_certificate(certificate.der)
    return "" if is_issued_by(leaf, authorities) else users.pop()
