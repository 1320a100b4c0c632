"""Messages out of DATA frames, where a frame is not just one message."""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack_from
from typing import Final

from ariane_wire.protocol.frames import PREFIX_OCTETS

JOINED_MAX: Final = 1 << 16
"""A message that came in pieces is handed on as ``bytes`` up to here, and beyond as the
``bytearray`` that it was collected in: not copied once more."""


class MemoryLedger:
    """Octets that all connections of a server or channel hold for others, and their bound."""

    __slots__ = ("crowded_octets", "octets", "octets_max", "on_crowded")

    def __init__(self, octets_max: int, on_crowded: Callable[[], None] | None = None) -> None:
        self.octets = 0
        """Held now: parts of messages, and messages that nobody has read yet."""
        self.octets_max = octets_max
        """The bound; a stream that would cross it is refused."""
        self.crowded_octets = octets_max * 3 // 4
        self.on_crowded = on_crowded
        """Called whenever more are held, and more than three quarters of the bound."""

    def has_room(self, octets: int) -> bool:
        """Whether so many more may be held."""
        return self.octets + octets <= self.octets_max

    def add(self, octets: int) -> None:
        """Hold so many more; less, if they are below 0."""
        self.octets += octets


class MemoryShare(MemoryLedger):
    """What the connections of one host hold of the octets of all, and their bound."""

    __slots__ = ("_whole", "calls")

    def __init__(self, octets_max: int, whole: MemoryLedger) -> None:
        super().__init__(octets_max)
        self._whole = whole
        self.calls = 0
        """Calls of the host that are in work."""

    def has_room(self, octets: int) -> bool:
        """Whether so many more may be held, of this host and in all."""
        return self.octets + octets <= self.octets_max and self._whole.has_room(octets)

    def add(self, octets: int) -> None:
        """Hold so many more of both; less, if they are below 0."""
        self.octets += octets
        whole = self._whole
        whole.octets += octets
        if whole.octets > whole.crowded_octets and octets > 0 and whole.on_crowded is not None:
            whole.on_crowded()


class ConnectionShare(MemoryLedger):
    """What one connection holds of the octets of its host."""

    __slots__ = ("_host",)

    def __init__(self, host: MemoryShare) -> None:
        super().__init__(host.octets_max)
        self._host = host

    def has_room(self, octets: int) -> bool:
        """Whether so many more may be held, of its host and in all."""
        return self._host.has_room(octets)

    def add(self, octets: int) -> None:
        """Hold so many more; less, if they are below 0."""
        self.octets += octets
        self._host.add(octets)


class MessageRefused(Exception):
    """A message of the peer is not taken."""

    def __init__(
        self,
        text: str,
        *,
        size_octets: int | None = None,
        limit_octets: int | None = None,
        is_exhausted: bool = False,
    ) -> None:
        super().__init__(text)
        self.text = text
        """For the status."""
        self.size_octets = size_octets
        """The message's length; None if not known."""
        self.limit_octets = limit_octets
        """What would be taken; None if that is not the point."""
        self.is_exhausted = is_exhausted
        """Whether there is too much of it; else it is malformed."""


class Assembly:
    """The messages of one stream, collected from its DATA frames."""

    __slots__ = ("_collected", "_compressed", "_ledger", "_length", "_octets_max", "_prefix")

    def __init__(self, octets_max: int, ledger: MemoryLedger) -> None:
        self._octets_max = octets_max
        self._ledger = ledger
        self._prefix = b""
        self._length = -1
        self._compressed = False
        self._collected = bytearray()

    @property
    def is_inside(self) -> bool:
        """Whether a message has begun and is not whole."""
        return self._length >= 0 or bool(self._prefix)

    def feed(
        self, octets: bytes | memoryview, at: int, stop: int
    ) -> list[tuple[bytes | bytearray, bool]]:
        """Take a piece of a DATA frame; return the messages that are whole, and which compressed.

        Raises:
            MessageRefused: A message is too long, or no message of gRPC.
        """
        whole: list[tuple[bytes | bytearray, bool]] = []
        while at < stop:
            if self._length < 0:
                prefix = (
                    self._prefix + octets[at : min(at + PREFIX_OCTETS - len(self._prefix), stop)]
                )
                at += len(prefix) - len(self._prefix)
                self._prefix = prefix
                if len(prefix) < PREFIX_OCTETS:
                    break
                self._begin(prefix)
            take = min(stop - at, self._length - len(self._collected))
            if take == self._length:
                whole.append((bytes(octets[at : at + take]), self._compressed))
                self._next()
            else:
                self._hold(take)
                self._collected += octets[at : at + take]
                if len(self._collected) == self._length:
                    whole.append((self._release(), self._compressed))
                    self._next()
            at += take
        return whole

    def drop(self) -> None:
        """Forget what was collected."""
        self._ledger.add(-len(self._collected))
        self._next()
        self._collected = bytearray()

    def _begin(self, prefix: bytes) -> None:
        compressed, length = unpack_from(">BI", prefix)
        if compressed > 1:
            raise MessageRefused(f"a message begins with {compressed}, which is neither 0 nor 1")
        if length > self._octets_max:
            raise too_long(length, self._octets_max)
        self._compressed = compressed == 1
        self._length = length
        self._prefix = b""

    def _hold(self, octets: int) -> None:
        if not self._ledger.has_room(octets):
            raise no_memory(self._ledger)
        self._ledger.add(octets)

    def _release(self) -> bytes | bytearray:
        message = self._collected
        self._ledger.add(-len(message))
        self._collected = bytearray()
        return bytes(message) if len(message) <= JOINED_MAX else message

    def _next(self) -> None:
        self._length = -1
        self._prefix = b""


def no_memory(ledger: MemoryLedger) -> MessageRefused:
    """The refusal of a message that there is no room for."""
    return MessageRefused(
        f"messages that are not whole or not read fill the {ledger.octets_max} octets that there "
        "are for them",
        is_exhausted=True,
    )


def too_long(size_octets: int, limit_octets: int) -> MessageRefused:
    """The refusal of a message beyond the limit."""
    return MessageRefused(
        f"Received message larger than max ({size_octets} vs. {limit_octets})",
        size_octets=size_octets,
        limit_octets=limit_octets,
        is_exhausted=True,
    )
