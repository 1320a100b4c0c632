"""Who a certificate names: a member of the cluster, a user, or nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from cryptography import x509

from ariane_servicekit.security.tls.certificate_folder import is_issued_by
from ariane_servicekit.security.tls.member_names import USER_WORD, MemberName, user_uri
from ariane_wire import Certificate

UserOfUri: TypeAlias = Callable[[str], str]
"""The user that a URI names; empty if it names none."""


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
