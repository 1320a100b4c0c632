"""Header blocks that are alike but for the values of some fields.

Most clients write the number of a request, the date and the exact time that is left into each call:
no block of theirs comes twice. What they have alike is learnt from two of them of one length. A
further one is compared with it piece by piece, and only the values between the pieces are read::

    :path /a/b  x-client c-1  x-request 71c9  grpc-timeout 2999871u
    ---------------- same ------------- vary  ---- same --- -vary--

The pieces hold every index and every length, so that such a block has the same fields at the same
places. It must depend on no table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from ariane_wire.protocol.headers import huffman
from ariane_wire.protocol.headers.block_walk import FIELD_OCTETS, Span, value_spans

Head_co = TypeVar("Head_co", covariant=True)
Head = TypeVar("Head")
Fields = list[tuple[bytes, bytes]]

PATTERNS_MAX: Final = 256
"""Half a megabyte at most; all are forgotten when there are more."""
ALIKE_MAX: Final = 8
"""Patterns of one length."""
VARIED_MAX: Final = 8
"""Values that vary; with more, walking over all fields costs no more."""


class Form(Protocol[Head_co]):
    """What heads have alike."""

    @property
    def repeats(self) -> bool:
        """Whether the same block may well come again."""
        ...

    def head(self, values: Sequence[bytes]) -> Head_co | None:
        """The head with these values in the fields that vary; None where it is an odd one."""
        ...


FormOf = Callable[[Head, Fields, Sequence[int]], Form[Head] | None]
"""What a head of these fields has alike with others, if the numbered ones vary; None: not known."""


class _Pattern(Generic[Head]):
    """A block, and what others of its length have that are like it."""

    __slots__ = (
        "_block", "_fields", "_form", "_head", "_octets", "_same", "_spans", "_values", "_varied"
    )  # fmt: skip

    def __init__(
        self, block: bytes, spans: Sequence[Span | None], fields: Fields, head: Head
    ) -> None:
        self._block = block
        self._spans = spans
        self._fields = fields
        self._head = head
        self._varied: tuple[int, ...] = ()
        self._form: Form[Head] | None = None
        self._same: list[tuple[int, bytes]] = []
        self._values: list[Span] = []
        self._octets = 0

    @property
    def field_count(self) -> int:
        """How many fields its blocks have."""
        return len(self._fields)

    @property
    def repeats(self) -> bool:
        """Whether the same block may well come again."""
        return self._form is not None and self._form.repeats

    def head_of(self, block: bytes, octets_max: int) -> Head | None:
        """What a block of this length says; None where it is not like this one, or odd."""
        form = self._form
        if form is None:
            return None
        for begin, octets in self._same:
            if not block.startswith(octets, begin):
                return None
        try:
            values = [
                huffman.decode(block[begin:end]) if coded else block[begin:end]
                for begin, end, coded in self._values
            ]
        except ValueError:
            return None
        if self._octets + sum(map(len, values)) > octets_max:
            return None
        return form.head(values)

    def learns(
        self,
        block: bytes,
        spans: Sequence[Span | None],
        fields: Fields,
        form_of: FormOf[Head],
    ) -> bool:
        """Take a block of this length in, if it is like this one."""
        if spans != self._spans:
            return False
        pairs = enumerate(zip(self._fields, fields, strict=True))
        varied = tuple(sorted({*self._varied, *(at for at, (a, b) in pairs if a != b)}))
        if not varied or len(varied) > VARIED_MAX:
            return False
        values = [span for at in varied if (span := spans[at]) is not None]
        begins = (0, *(end for _, end, _ in values))
        ends = (*(begin for begin, _, _ in values), len(block))
        same = [(at, self._block[at:end]) for at, end in zip(begins, ends, strict=True) if at < end]
        if not all(block.startswith(octets, at) for at, octets in same):
            return False
        form = form_of(self._head, self._fields, varied)
        if form is None:
            return False
        self._varied, self._form, self._same, self._values = varied, form, same, values
        self._octets = sum(
            len(name) + FIELD_OCTETS + (0 if at in varied else len(value))
            for at, (name, value) in enumerate(self._fields)
        )
        return True


class BlockPatterns(Generic[Head]):
    """Patterns of blocks by their lengths; one for all connections of a server."""

    __slots__ = ("_count", "_form_of", "_patterns")

    def __init__(self, form_of: FormOf[Head]) -> None:
        self._form_of = form_of
        self._patterns: dict[int, list[_Pattern[Head]]] = {}
        self._count = 0

    def find(self, block: bytes, octets_max: int) -> tuple[Head, int, bool] | None:
        """What a block says, if it is like earlier ones.

        Returns:
            The head, how many fields it has, and whether the same block may well come again.
        """
        for pattern in self._patterns.get(len(block), ()):
            head = pattern.head_of(block, octets_max)
            if head is not None:
                return head, pattern.field_count, pattern.repeats
        return None

    def learn(self, block: bytes, fields: Fields, head: Head) -> None:
        """Take in a block that depends on no table, and what it says."""
        spans = value_spans(block)
        alike = self._patterns.setdefault(len(block), [])
        for pattern in alike:
            if pattern.learns(block, spans, fields, self._form_of):
                return
        if self._count >= PATTERNS_MAX:
            self._patterns = {len(block): (alike := [])}
            self._count = 0
        if len(alike) >= ALIKE_MAX:
            alike.pop()
            self._count -= 1
        alike.insert(0, _Pattern(block, spans, fields, head))
        self._count += 1
