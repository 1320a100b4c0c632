"""Reading header blocks, and remembering what repeats.

We tell every peer to use no dynamic table. Once it keeps to that, a block means the same on every
connection and for ever, and what it was parsed to is found by its octets: a repeated call costs one
look into a dictionary instead of a walk over its fields. A call that differs in a few values costs
some more: see ``block_patterns``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from hpack import Decoder
from hpack.exceptions import HPACKError, OversizedHeaderListError

from ariane_wire.protocol.faults import ConnectionFault
from ariane_wire.protocol.frames import ErrorCode
from ariane_wire.protocol.headers.block_patterns import BlockPatterns, Fields, FormOf
from ariane_wire.protocol.headers.block_walk import TooManyFields, plain_block

Head = TypeVar("Head")

_TABLE_OFF: Final = b"\x20"

BLOCKS_MAX: Final = 1024
BLOCK_OCTETS_MAX: Final = 1024
"""A memory of blocks holds about a megabyte at most, and is emptied when it is full: whoever sends
other blocks all the time makes it useless for all, but no slower than without it."""


class HeaderListTooLong(Exception):
    """The fields of a block are more than we take; no state was harmed."""

    def __init__(self, octets_max: int) -> None:
        super().__init__(f"more than {octets_max} octets of header fields")
        self.octets_max = octets_max
        """How many octets we take, counted as RFC 9113 counts them."""


class BlockMemory(Generic[Head]):
    """Blocks that were parsed before; one for all connections of a server, or of a channel."""

    __slots__ = ("heads", "parse", "patterns")

    def __init__(
        self, parse: Callable[[Fields], Head], form_of: FormOf[Head] | None = None
    ) -> None:
        """``form_of`` tells what heads have alike; without it, only whole blocks are known."""
        self.parse = parse
        self.heads: dict[bytes, Head] = {}
        self.patterns = None if form_of is None else BlockPatterns(form_of)

    def keep(self, block: bytes, head: Head) -> None:
        """Remember a block."""
        if len(block) > BLOCK_OCTETS_MAX:
            return
        if len(self.heads) >= BLOCKS_MAX:
            self.heads.clear()
        self.heads[block] = head

    def learn(self, block: bytes, fields: Fields, head: Head) -> None:
        """Learn what further blocks may be like."""
        if self.patterns is not None and len(block) <= BLOCK_OCTETS_MAX:
            self.patterns.learn(block, fields, head)


class BlockReader(Generic[Head]):
    """Reads the blocks of one connection."""

    __slots__ = ("_decoder", "_memory", "_table_refused", "fields_read", "heads")

    def __init__(self, memory: BlockMemory[Head], octets_max: int) -> None:
        self._memory = memory
        self._decoder = Decoder(max_header_list_size=octets_max)
        self.heads: dict[bytes, Head] = {}
        """What is remembered, by block; empty until the peer uses no dynamic table."""
        self._table_refused = False
        self.fields_read = 0
        """How many fields the last block had that was read."""

    def peer_has_our_settings(self) -> None:
        """From now on the peer may use no dynamic table.

        It says so at the beginning of its next block. One whose block was lost with its stream may
        not have said it: that is harmless, and its old table goes on.
        """
        self._table_refused = True

    def read(self, block: bytes) -> Head:
        """Return what a block says.

        Raises:
            ConnectionFault: It is no block, or too long while the peer may use a dynamic table.
            HeaderListTooLong: It is too long.
            StreamFault: Its fields break a rule; raised by the parser.
        """
        head = self.heads.get(block)
        if head is not None:
            return head
        if self.heads is self._memory.heads and self._memory.patterns is not None:
            found = self._memory.patterns.find(block, self._decoder.max_header_list_size)
            if found is not None:
                head, self.fields_read, repeats = found
                if repeats:
                    self._memory.keep(block, head)
                return head
        return self._read_whole(block)

    def _read_whole(self, block: bytes) -> Head:
        decoder = self._decoder
        stateless = not decoder.header_table_size or block[:1] == _TABLE_OFF
        if self._table_refused and block[:1] > _TABLE_OFF and block[0] & 0xE0 == 0x20:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a dynamic table, which we refused")
        try:
            plain, self.fields_read = plain_block(block, decoder.max_header_list_size)
            fields = [(bytes(n), bytes(v)) for n, v in decoder.decode(plain, raw=True)]
        except (TooManyFields, OversizedHeaderListError):
            if stateless:
                decoder.header_table_size = 0
                raise HeaderListTooLong(decoder.max_header_list_size) from None
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"more than {decoder.max_header_list_size} octets of header fields",
            ) from None
        except (HPACKError, IndexError, ValueError) as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"header block: {error}") from None
        head = self._memory.parse(fields)
        if decoder.header_table_size == 0:
            self.heads = self._memory.heads
            if stateless:
                self._memory.keep(block, head)
                if block[:1] != _TABLE_OFF:
                    self._memory.learn(block, fields, head)
        return head
