"""Where a channel connects to, as text: the forms of gRPC that name an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

_PORT_DEFAULT: Final = 443


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target."""

    authority: str
    host: str = ""
    """A name or an address, without brackets."""
    port: int = 0
    path: str = ""
    """Of a unix socket; begins with a zero octet in the abstract space. Empty for others."""


def parse_target(text: str) -> Target:
    """Parse ``host:port``, ``dns:///host:port``, ``ipv4:…``, ``ipv6:…`` or ``unix:…``.

    Raises:
        ValueError: It is none of these.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "unix" and rest:
        return Target("localhost", path=unquote(rest.removeprefix("//")))
    if scheme == "unix-abstract" and rest:
        return Target("localhost", path="\0" + unquote(rest))
    if scheme in {"dns", "ipv4", "ipv6"} and rest:
        text = unquote(rest)
        if text.startswith("//"):
            text = text[2:].partition("/")[2]
    host, port = split_address(text)
    return Target(authority=text, host=host, port=_PORT_DEFAULT if port is None else port)


def split_address(text: str) -> tuple[str, int | None]:
    """Host and port of ``host:port``, ``[address]:port`` or ``host``.

    Raises:
        ValueError: There is no host, or the port is no number.
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is no address: [address]:port")
        port = rest[1:]
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host:
        raise ValueError(f"{text!r} names no host")
    if not port:
        return host, None
    if not port.isdigit() or int(port) > 0xFFFF:
        raise ValueError(f"{text!r} has no port between 0 and 65535")
    return host, int(port)
