"""What happens in one random call: said before it is played, the same for every pair of ends.

A plan has no moments in it. Whoever must wait for the other end waits for an event: the client
cancels when the handler has come to its `hang`, and a deadline passes while the handler hangs.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass, field
from typing import Literal

import grpc
from hypothesis import strategies as st

Metadata = tuple[tuple[str, str | bytes], ...]
Kind = Literal["unary_unary", "unary_stream", "stream_unary", "stream_stream"]
KINDS: tuple[Kind, ...] = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")

LIMIT_BYTES = 5_000
"""The largest message of ends that have a limit."""


class End(enum.Enum):
    """How a handler ends."""

    RETURN = "return"
    ABORT = "abort"
    RAISE = "raise"
    HANG = "hang"


class Quits(enum.Enum):
    """Why a call ends before its handler does, if it does."""

    NEVER = "never"
    CANCEL = "the call is cancelled"
    CANCEL_TASK = "the task that awaits the call is cancelled"
    DEADLINE = "the deadline passes"


class Limit(enum.Enum):
    """Which end has a limit, as the options of grpcio set it."""

    NONE = "none"
    CLIENT_SENDS = "client max_send"
    CLIENT_RECEIVES = "client max_receive"
    SERVER_SENDS = "server max_send"
    SERVER_RECEIVES = "server max_receive"


@dataclass(frozen=True, slots=True)
class Payload:
    """One message: its bytes follow from size and seed."""

    size: int
    seed: int
    repetitive: bool

    def __bytes__(self) -> bytes:
        if self.repetitive:
            return bytes([self.seed % 256]) * self.size
        return random.Random(self.seed).randbytes(self.size)


@dataclass(frozen=True, slots=True)
class Script:
    """What the handler does, in this order but for reads, which come before and between writes."""

    reads: tuple[int, ...] = ()
    """How many requests it asks for before each write and before its end; a request that does not
    come because the stream has ended is noted as such."""
    drains: bool = True
    initial: Metadata | None = None
    """Initial metadata; None where the handler does not send them itself."""
    writes: tuple[Payload, ...] = ()
    """The responses. A handler with one response returns the first."""
    trailing: Metadata | None = None
    """Trailing metadata; None where none are set."""
    code: grpc.StatusCode | None = None
    """What `set_code` is called with, or `abort`."""
    details: str = ""
    """The same."""
    compression: grpc.Compression | None = None
    """What `set_compression` is called with."""
    by_iterator: bool = False
    """Whether it yields and iterates rather than reads and writes."""
    end: End = End.RETURN
    """How it ends."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One call."""

    kind: Kind
    """Which of the four."""
    metadata: Metadata = ()
    """What the client sends."""
    requests: tuple[Payload, ...] = (Payload(0, 0, repetitive=False),)
    """The messages that it sends; one where the kind has one."""
    script: Script = field(default_factory=Script)
    """What the handler does."""
    quits: Quits = Quits.NEVER
    """Whether and how the client gives up; the handler hangs then."""
    compression: grpc.Compression | None = None
    """Of the requests."""
    by_iterator: bool = False
    """Whether the client hands over an iterator and iterates."""
    wait_for_ready: bool = False
    """As the option."""
    far_deadline: bool = False
    """Whether there is a deadline that does not pass."""
    limit: Limit = Limit.NONE
    """Which end refuses messages beyond `LIMIT_BYTES`, on the way out or in."""

    @property
    def streams_requests(self) -> bool:
        """Whether the client may send any number."""
        return self.kind.startswith("stream")

    @property
    def streams_responses(self) -> bool:
        """Whether the handler may."""
        return self.kind.endswith("stream")

    @property
    def ends_early(self) -> bool:
        """Whether the handler may end while the client still writes."""
        return self.streams_requests and not self.script.drains and self.quits is Quits.NEVER

    @property
    def oversteps(self) -> bool:
        """Whether an end refuses a message of this call."""
        requests = self.limit in {Limit.CLIENT_SENDS, Limit.SERVER_RECEIVES}
        messages = self.requests if requests else self.script.writes
        return self.limit is not Limit.NONE and any(each.size > LIMIT_BYTES for each in messages)


KEY_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_."
VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
SIZES = (0, 1, 4, 5, 100, 1_100, 16_378, 16_379, 16_384, 65_530, 65_535, 65_536, 100_000, 300_000)

payloads = st.builds(
    Payload,
    size=st.one_of(st.sampled_from(SIZES), st.integers(0, 2_000)),
    seed=st.integers(0, 1_000),
    repetitive=st.booleans(),
)
names = st.text(KEY_LETTERS, min_size=1, max_size=12).map(lambda text: f"x-{text}0")
texts = st.builds(
    lambda first, middle, last: first + middle + last,
    st.text(VISIBLE, max_size=1),
    st.text(VISIBLE + " ", max_size=30),
    st.text(VISIBLE, min_size=1, max_size=1),
)
pairs = st.one_of(
    st.tuples(names, texts),
    st.tuples(names.map("{}-bin".format), st.binary(max_size=40)),
    st.tuples(st.just("x-long0"), st.integers(100, 2_000).map("v".__mul__)),
)
metadata = st.lists(pairs, max_size=5).map(tuple)
details = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
compressions = st.sampled_from(
    (None, grpc.Compression.NoCompression, grpc.Compression.Deflate, grpc.Compression.Gzip)
)
failures = st.sampled_from([code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])


@st.composite
def scripts(draw: st.DrawFn, kind: Kind, end: End) -> Script:
    """What a handler of this kind may do."""
    many = kind.endswith("stream")
    writes = draw(st.lists(payloads, max_size=4)) if many else [draw(payloads)]
    reads: list[int] = []
    if kind.startswith("stream"):
        reads = draw(
            st.lists(st.integers(0, 2), min_size=len(writes) + 1, max_size=len(writes) + 1)
        )
    # A status that is set rather than aborted with; "details-bin" is what rich errors are made of.
    sets_code = end is End.ABORT or draw(st.booleans())
    rich = draw(st.binary(max_size=30))
    trailing = draw(st.one_of(st.none(), metadata))
    if sets_code and rich:
        trailing = (*(trailing or ()), ("grpc-status-details-bin", rich))
    return Script(
        reads=tuple(reads),
        drains=draw(st.booleans()),
        initial=draw(st.one_of(st.none(), metadata)),
        writes=tuple(writes),
        trailing=trailing,
        code=draw(failures) if sets_code else None,
        details=draw(details) if sets_code else "",
        compression=draw(compressions),
        by_iterator=many and draw(st.booleans()),
        end=end,
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any call."""
    kind = draw(st.sampled_from(KINDS))
    limit = draw(st.sampled_from((Limit.NONE, Limit.NONE, Limit.NONE, *Limit)))
    # A message that is refused ends the call: there is nothing to give up then.
    quits = draw(st.sampled_from((Quits.NEVER, *Quits) if limit is Limit.NONE else (Quits.NEVER,)))
    end = End.HANG
    if quits is Quits.NEVER:
        end = draw(st.sampled_from((End.RETURN, End.RETURN, End.ABORT, End.RAISE)))
    streams = kind.startswith("stream")
    return Plan(
        kind=kind,
        metadata=draw(metadata),
        requests=tuple(draw(st.lists(payloads, max_size=4))) if streams else (draw(payloads),),
        script=draw(scripts(kind, end)),
        quits=quits,
        compression=draw(compressions),
        by_iterator=draw(st.booleans()),
        wait_for_ready=draw(st.booleans()),
        far_deadline=quits is not Quits.DEADLINE and draw(st.booleans()),
        limit=limit,
    )


def batches() -> st.SearchStrategy[list[Plan]]:
    """Calls that are in flight together, on one connection."""
    return st.lists(plans(), min_size=1, max_size=3)
