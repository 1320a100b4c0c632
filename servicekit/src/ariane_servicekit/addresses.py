"""Addresses as people write them: ``host:port``, IPv6 hosts in brackets."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port. Port 0 means: the system chooses one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port`` or ``[ipv6]:port``.

        Raises:
            ValueError: Not an address; the text says what is wrong.
        """
        host, separator, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if bracketed:
            host = host[1:-1]
        elif ":" in host:
            msg = f"{text!r}: an IPv6 host stands in brackets, as in [::1]:9876"
            raise ValueError(msg)
        if not separator or not host or not port.isascii() or not port.isdigit():
            msg = f"{text!r} is no address: expected host:port, as in 127.0.0.1:9876"
            raise ValueError(msg)
        if any(character.isspace() or character in "/,;@" for character in host):
            msg = f"{text!r}: the host has a character that no host has"
            raise ValueError(msg)
        if int(port) > PORT_MAX:
            msg = f"{text!r}: the port must be 0 to {PORT_MAX}"
            raise ValueError(msg)
        return cls(host, int(port))

    def __str__(self) -> str:
        """Spell it as ``parse`` reads it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it, judged by the text alone."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_wildcard(self) -> bool:
        """Whether it means all interfaces: for servers to listen on, not for clients."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def with_port(self, port: int) -> Address:
        """Return the same host with another port."""
        return Address(self.host, port)
