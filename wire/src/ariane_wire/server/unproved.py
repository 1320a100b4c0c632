"""Which connection ends for a new one where a server has as many as it may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ariane_wire.server.identity import Identity
    from ariane_wire.server.life import ConnectionLife


class Unproved:
    """Open connections whose clients may have proved nothing, by host, the oldest first.

    Whoever has filled a server with them from some hosts keeps out nobody who comes from another.
    """

    def __init__(self) -> None:
        self._by_host: dict[str, dict[ConnectionLife, None]] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        """Hosts by how many they have, so that the one with most is found without a search."""
        self._most = 0

    def add(self, host: str, life: ConnectionLife) -> None:
        """Take note of a new one, or anew of one whose client may be known no more.

        One that is there stays where it is: whoever shows a proof that holds no more becomes no
        younger.
        """
        theirs = self._by_host.setdefault(host, {})
        if life in theirs:
            return
        theirs[life] = None
        self._count(host, len(theirs) - 1, len(theirs))

    def discard(self, host: str, life: ConnectionLife) -> None:
        """It is gone, or its client is known."""
        theirs = self._by_host.get(host)
        if theirs is None or theirs.pop(life, self) is not None:
            return
        self._count(host, len(theirs) + 1, len(theirs))
        if not theirs:
            del self._by_host[host]

    def give_way(self, host: str, is_stranger: Callable[[Identity], bool]) -> ConnectionLife | None:
        """The one that ends for another host: the oldest of the host with most.

        A client that has proved who it is was a stranger for a moment: of those each is asked for
        once, and forgotten until it is added again.

        Args:
            host: Of the new connection.
            is_stranger: Whether a client has proved nothing yet.

        Returns:
            None if no host has twice as many as this one will have.
        """
        least = 2 * (len(self._by_host.get(host, ())) + 1)
        while self._most >= least:
            greediest = next(iter(self._by_count[self._most]))
            oldest = next(iter(self._by_host[greediest]))
            self.discard(greediest, oldest)
            if is_stranger(oldest.identity):
                return oldest
        return None

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self._by_host.values()))

    def holding(self, is_stranger: Callable[[Identity], bool]) -> Iterator[list[ConnectionLife]]:
        """Of each host the connections that hold octets and whose clients have proved nothing.

        For those that hold none, which are most, nobody is asked.
        """
        for host, theirs in list(self._by_host.items()):
            holding = [life for life in theirs if life.connection.ledger.octets]
            strangers = [life for life in holding if is_stranger(life.identity)]
            if len(strangers) < len(holding):
                for life in set(holding).difference(strangers):
                    self.discard(host, life)
            if strangers:
                yield strangers

    def _count(self, host: str, before: int, after: int) -> None:
        if before:
            hosts = self._by_count[before]
            del hosts[host]
            if not hosts:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[host] = None
        # One more or one less: the host with most has as many, or one less.
        if after > self._most or self._most not in self._by_count:
            self._most = after
