"""URLs of what a service calls beside its cluster: is the way there private?

Private is TLS that proves who answers, and what does not leave the machine::

    https://collector:4317                                         TLS
    http://127.0.0.1:4317                                          this machine
    postgresql+psycopg://u:p@db/a?sslmode=verify-full              TLS; verify-ca, too
    postgresql+psycopg:///a?host=/run/postgresql                   this machine, by a socket
    sqlite:////var/lib/ariane/a.db                                 a file

Whatever else there is, is not: nobody has looked at how it goes.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import parse_qs, urlsplit

from ariane_servicekit.addresses import Address

_POSTGRESQL: Final = "postgresql"
_OTHER: Final = "other"
_DRIVERS: Final = frozenset({_POSTGRESQL, f"{_POSTGRESQL}+psycopg"})
"""Schemes that go by libpq, whose rules these are."""

_PROVED: Final = frozenset({"verify-ca", "verify-full"})
"""Other modes of libpq go without TLS if the server says so, or take any server's certificate."""

_VARIABLES: Final = ("PGHOST", "PGHOSTADDR", "PGSERVICE")
"""By these libpq goes elsewhere where the URL names no host, and by the last two in any case."""

HINTS: Final = {
    "http": "use https://",
    _POSTGRESQL: "give it ?sslmode=verify-full, and sslrootcert for an authority of your own; for a"
    f" database on this machine, unset {', '.join(_VARIABLES)}",
    _OTHER: "use sqlite, or postgresql+psycopg with ?sslmode=verify-full",
}
"""What to do, by kind of URL."""


def plain_kind(url: str) -> str | None:
    """The kind of a URL, a key of ``HINTS``, if whoever is on the way reads what is sent there.

    Args:
        url: Of any form. Names are not looked up: each but localhost is another machine.

    Returns:
        None for a way that is private, and for an empty URL.
    """
    scheme = url.partition(":")[0].lower()
    if not url or scheme == "https" or scheme.partition("+")[0] == "sqlite":
        return None
    kind = _POSTGRESQL if scheme in _DRIVERS else "http" if scheme == "http" else _OTHER
    if kind == _OTHER:
        return kind
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return kind  # Nobody knows where it leads.
    is_private = _is_here(host) if kind == "http" else _is_private_by_libpq(host, parts.query)
    return None if is_private else kind


def _is_private_by_libpq(host: str, text: str) -> bool:
    query = parse_qs(text, keep_blank_values=True)
    modes = query.get("sslmode", [])
    if modes and _PROVED.issuperset(modes):
        return True
    # A service file, too, may name any host.
    if "service" in query or any(map(os.environ.get, _VARIABLES)):
        return False
    # In a URL, libpq's options win over the host before them.
    hosts = [*query.get("host", [host]), *query.get("hostaddr", [])]
    named = [each for group in hosts for each in group.split(",")]
    return all(not each or each[0] in "/@" or _is_here(_without_port(each)) for each in named)


def _is_here(host: str) -> bool:
    return Address(host, 0).is_loopback


def _without_port(host: str) -> str:
    """SQLAlchemy takes ``host:port`` and ``[ipv6]:port`` in the query, too."""
    bracketed, _, rest = host.removeprefix("[").partition("]")
    if host[0] == "[" and (not rest or rest[0] == ":"):
        return bracketed
    name, colon, _ = host.partition(":")
    return name if colon and host.count(":") == 1 else host
