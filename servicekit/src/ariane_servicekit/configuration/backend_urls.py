"""URLs of what a service calls beside its cluster: is the way there private?

Private is TLS that proves who answers, and what does not leave the machine::

    https://collector:4317                                         TLS
    http://127.0.0.1:4317                                          this machine
    postgresql+psycopg://u:p@db/a?sslmode=verify-full              TLS; verify-ca, too
    postgresql+psycopg:///a?host=/run/postgresql                   this machine, by a socket
    sqlite:////var/lib/ariane/a.db                                 a file
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, urlsplit

from ariane_servicekit.addresses import Address

_POSTGRESQL: Final = "postgresql"
_PROVED: Final = frozenset({"verify-ca", "verify-full"})
"""Other modes of libpq go without TLS if the server says so, or take any server's certificate."""

HINTS: Final = {
    "http": "use https://",
    _POSTGRESQL: "give it ?sslmode=verify-full, and sslrootcert for an authority of your own",
}
"""What to do, by kind of URL."""


def plain_kind(url: str) -> str | None:
    """The kind of a URL, a key of ``HINTS``, if whoever is on the way reads what is sent there.

    Args:
        url: Of any form. Names are not looked up: each but localhost is another machine.

    Returns:
        None for a way that is private, and for URLs of other kinds.
    """
    kind = url.partition(":")[0].partition("+")[0].lower()
    if kind not in HINTS:
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return kind  # Nobody knows where it leads.
    if kind == "http":
        return None if _is_here(host) else kind
    query = parse_qs(parts.query, keep_blank_values=True)
    modes = query.get("sslmode", [])
    if modes and _PROVED.issuperset(modes):
        return None
    # In a URL, libpq's options win over the host before them; a service file may name any host.
    hosts = [*query.get("host", [host]), *query.get("hostaddr", [])]
    named = [each for group in hosts for each in group.split(",")]
    here = all(not each or each[0] in "/@" or _is_here(_without_port(each)) for each in named)
    return None if here and "service" not in query else kind


def _is_here(host: str) -> bool:
    return Address(host, 0).is_loopback


def _without_port(host: str) -> str:
    """SQLAlchemy takes ``host:port`` and ``[ipv6]:port`` in the query, too."""
    bracketed, _, rest = host.removeprefix("[").partition("]")
    if host[0] == "[" and (not rest or rest[0] == ":"):
        return bracketed
    name, colon, _ = host.partition(":")
    return name if colon and host.count(":") == 1 else host
