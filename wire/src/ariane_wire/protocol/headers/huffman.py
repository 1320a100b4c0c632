"""Strings of header blocks that are coded by Huffman (RFC 7541, appendix B), an octet a step.

The state between two octets is a node of the tree of codes. For each node that is met, a row says
by the next octet what that yields and which node comes then: one look a step, where a walk from bit
to bit costs a peer nothing and us eight times as much.
"""

from __future__ import annotations

from typing import Final

from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

_EOS: Final = 256
_INVALID: Final = -1
_PADDING_BITS_MAX: Final = 7

Row = list[tuple[bytes, int]]


class _Codes:
    """The tree, and the rows of the nodes that were met; all of them are 6 MB."""

    def __init__(self) -> None:
        self._next: list[list[int]] = [[0, 0]]
        """Of each node: where 0 and 1 lead; a symbol is noted as its complement, -1 - symbol."""
        for symbol, (code, bits) in enumerate(
            zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)
        ):
            self._add(symbol, code, bits)
        self.rows: list[Row | None] = [None] * len(self._next)
        node, self.ends = 0, {0}
        """Nodes in which a string may end: its last octet is filled up with ones."""
        for _ in range(_PADDING_BITS_MAX):
            node = self._next[node][1]
            self.ends.add(node)

    def _add(self, symbol: int, code: int, bits: int) -> None:
        node = 0
        for at in range(bits - 1, 0, -1):
            bit = code >> at & 1
            if not self._next[node][bit]:
                self._next[node][bit] = len(self._next)
                self._next.append([0, 0])
            node = self._next[node][bit]
        self._next[node][code & 1] = -1 - symbol

    def row(self, node: int) -> Row:
        """The row of a node."""
        row = self.rows[node] = [self._step(node, octet) for octet in range(256)]
        return row

    def _step(self, node: int, octet: int) -> tuple[bytes, int]:
        symbols = []
        for at in range(7, -1, -1):
            node = self._next[node][octet >> at & 1]
            if node < 0:
                symbol = -1 - node
                if symbol == _EOS:
                    return b"", _INVALID
                symbols.append(symbol)
                node = 0
        return bytes(symbols), node


_codes: Final = _Codes()


def decode(octets: bytes) -> bytes:
    """Return what a coded string says.

    Raises:
        ValueError: It is none.
    """
    rows, row_of = _codes.rows, _codes.row
    node = 0
    pieces = []
    for octet in octets:
        piece, node = (rows[node] or row_of(node))[octet]
        if node < 0:
            raise ValueError("the end of a string within a string")
        pieces.append(piece)
    if node not in _codes.ends:
        raise ValueError("a string that ends within a symbol")
    return b"".join(pieces)
