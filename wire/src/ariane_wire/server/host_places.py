"""Places that strangers may take, and of which one host cannot have all.

::

    ipv4:192.0.2.7:40211                       192.0.2.7
    ipv6:%5B::ffff:192.0.2.7%5D:40211          192.0.2.7            the same host
    ipv6:%5B2001:db8:0:7:a::1%5D:40211         2001:db8:0:7::/64    a host takes any of 2**64

"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address
from threading import Lock
from typing import Final

SHARE_MIN: Final = 16
"""Places that one host may have in any case: less would be useless."""

_NETWORK_MASK: Final = ~((1 << 64) - 1)
_HOSTS_REMEMBERED: Final = 4096


@lru_cache(_HOSTS_REMEMBERED)
def host_of(peer: str) -> str:
    """The host that a peer counts for: an IPv4 address, or a network of IPv6, ``/64``.

    Args:
        peer: As ``Identity.peer``, brackets also as they are. One without an address counts for
            the kind of its socket, such as ``unix``.
    """
    place = peer.rpartition(":")[0]
    if place.startswith("ipv4:"):
        return place[5:]
    if not place.startswith("ipv6:"):
        return place
    written = place[5:].replace("%5B", "[").replace("%5D", "]").strip("[]")
    try:
        address = IPv6Address(written.partition("%")[0])
    except ValueError:
        return place
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) & _NETWORK_MASK)}/64"


class HostPlaces:
    """Counts who has a place, by host; for any threads."""

    def __init__(self, count_max: int, of_host_max: int | None = None) -> None:
        """Nobody has one yet.

        Args:
            count_max: Places in all.
            of_host_max: Of these, how many one host may have; None for three quarters, and
                ``SHARE_MIN`` in any case.
        """
        self.count = 0
        """Places that are taken."""
        self._of_host: dict[str, int] = {}
        self._lock = Lock()
        self.change_count_max(count_max, of_host_max)

    def change_count_max(self, count_max: int, of_host_max: int | None = None) -> None:
        """Have more or fewer places from now on; nobody loses one. Arguments are as above."""
        self.count_max = count_max
        """Places in all."""
        self.of_host_max = of_host_max or max(SHARE_MIN, count_max * 3 // 4)
        """Of these, how many one host may have."""

    def taken_by(self, host: str) -> int:
        """How many places a host has."""
        return self._of_host.get(host, 0)

    def enter(self, host: str) -> bool:
        """Give a host, as ``host_of`` says it, one more place; whether there is one for it."""
        with self._lock:
            taken = self._of_host.get(host, 0)
            if self.count >= self.count_max or taken >= self.of_host_max:
                return False
            self.count += 1
            self._of_host[host] = taken + 1
            return True

    def leave(self, host: str) -> None:
        """Take one place of a host back."""
        with self._lock:
            self.count -= 1
            left = self._of_host[host] - 1
            if left:
                self._of_host[host] = left
            else:
                del self._of_host[host]
