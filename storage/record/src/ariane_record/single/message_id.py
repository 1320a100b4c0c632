"""Ids of messages: by place (offset message id), and from the producer (unique id).

An offset message id is given by the broker and gives the place of the record without an index::

    store ip (4 or 16 bytes) | port i32 | commit-log offset i64          32 or 56 hex digits

A unique id is given by the producer before the message is sent, so that a repeated send keeps it::

    ip (4 or 16 bytes) | pid i16 | origin i32 | ms of the month i32 | counter i16     32 or 56
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from ipaddress import ip_address
from operator import mul
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_ordering import java_string_hash
from ariane_record.checksums.checksum import crc32
from ariane_record.checksums.crc_algebra import BYTE_CRCS, zero_shift
from ariane_record.errors import IllegalMessageId
from ariane_record.layout import PROPERTY_VALUE_END, CommitLogOffset, Host
from ariane_record.single.addresses import ip_text, packed_ip

_PLACE: Final = struct.Struct(">iq")
_IPV4_PLACE_BYTES: Final = 4 + _PLACE.size
_IPV6_PLACE_BYTES: Final = 16 + _PLACE.size

_COUNTER_LAST: Final = 0xFFFF
_FEW: Final = 8
_COUNTER_DIGITS: Final = 4
_COUNTER: Final = f"V{_COUNTER_DIGITS}"
_NO_COUNTER: Final = "0" * _COUNTER_DIGITS
_DECEMBER: Final = 12
_OWN_DIGITS: Final = 12
"""Digits of the time and the counter, in which the ids of one producer differ."""
_HASH_FACTOR: Final = 31
_WORD: Final = 1 << 32
_OWN_POWERS: Final = [pow(_HASH_FACTOR, place, _WORD) for place in range(_OWN_DIGITS - 1, -1, -1)]


class MessagePlace(NamedTuple):
    """The place of a record."""

    store_host: Host
    """The broker that stored it."""
    commit_log_offset: CommitLogOffset
    """Byte position in the commit log of that broker."""


class IdRun(NamedTuple):
    """Unique ids that differ in their counter only."""

    stamp: str
    """The digits before the counter."""
    begin: int
    """The first counter."""
    end: int
    """The counter after the last one."""


class UniqueIds:
    """New unique ids; their digits, hashes and sums are made on first use."""

    __slots__ = ("_count", "_runs", "_texts")

    def __init__(self, runs: Sequence[IdRun]) -> None:
        """Take ids, run after run; usually there is one run."""
        self._runs = runs
        self._count = 0
        for _, begin, end in runs:
            self._count += end - begin
        self._texts: list[str] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def digit_count(self) -> int:
        """Hex digits of each id."""
        return len(self._runs[0].stamp) + _COUNTER_DIGITS

    @property
    def digits(self) -> NDArray[np.uint8]:
        """Their hex digits as ASCII, a row for each id: uint8[count, 32], or 56 digits."""
        rows = np.empty((len(self), self.digit_count), np.uint8)
        self.write(rows)
        return rows

    def write(self, rows: NDArray[np.uint8]) -> None:
        """Write the digits into rows of that shape, which need not be contiguous."""
        done = 0
        for stamp, begin, end in self._runs:
            part = rows[done : (done := done + end - begin)]
            part[:, :-_COUNTER_DIGITS] = np.frombuffer(stamp.encode("ascii"), np.uint8)
            counters = _counter_digits()[begin:end]
            part[:, -_COUNTER_DIGITS:].view(_COUNTER)[:] = counters.view(_COUNTER)

    @property
    def hash_words(self) -> NDArray[np.uint32]:
        """``java_hash`` of each, as words: uint32[count]."""
        return self._by_run(
            lambda stamp, begin, end: (
                _counter_hashes()[begin:end]
                + np.uint32(java_string_hash(stamp + _NO_COUNTER) % _WORD)
            )
        )

    @property
    def pair_crcs(self) -> NDArray[np.uint32]:
        """CRC-32 of each, with the end of its property after it: uint32[count]."""
        return self._by_run(
            lambda stamp, begin, end: (
                _counter_crcs()[begin:end]
                ^ np.uint32(crc32((stamp + _NO_COUNTER).encode("ascii") + PROPERTY_VALUE_END))
            )
        )

    def part(self, begin: int, end: int) -> UniqueIds:
        """Neighbouring ids."""
        runs: list[IdRun] = []
        first = 0
        for run in self._runs:
            begins = run.begin + max(begin - first, 0)
            ends = min(run.begin + end - first, run.end)
            if begins < ends:
                runs.append(IdRun(run.stamp, begins, ends))
            first += run.end - run.begin
        return UniqueIds(runs)

    def texts(self) -> list[str]:
        """The ids as texts; not to be changed."""
        if self._count < _FEW:
            if self._texts is None:
                # A sender needs those of a small call twice, for its records and for its results.
                self._texts = []
                for stamp, begin, end in self._runs:
                    self._texts += map(f"{stamp}{{:04X}}".format, range(begin, end))
            return self._texts
        width = self.digit_count
        text = self.digits.tobytes().decode("ascii")
        return [text[start : start + width] for start in range(0, len(text), width)]

    def _by_run(
        self, words_of: Callable[[str, int, int], NDArray[np.uint32]]
    ) -> NDArray[np.uint32]:
        if len(self._runs) == 1:
            return words_of(*self._runs[0])
        return np.concatenate([words_of(*run) for run in self._runs])


def id_hash_word(unique_id: str) -> int:
    """``java_hash`` of an id of ``UniqueIds``, as a number with the same lowest 32 bits.

    Ids of one producer begin alike, which is hashed once.
    """
    own: int = sum(map(mul, unique_id[-_OWN_DIGITS:].encode(), _OWN_POWERS))
    return _begin_word(unique_id[:-_OWN_DIGITS]) + own


@lru_cache(maxsize=64)
def _begin_word(begin: str) -> int:
    return java_string_hash(begin) * pow(_HASH_FACTOR, _OWN_DIGITS, _WORD) % _WORD


def encode_offset_message_id(store_host: Host, commit_log_offset: int) -> str:
    """The offset message id: 32 hex digits, or 56 with an IPv6 host."""
    place = _PLACE.pack(store_host[1], commit_log_offset)
    return (packed_ip(store_host[0]) + place).hex().upper()


def offset_message_ids(store_host: Host, commit_log_offsets: Iterable[int]) -> list[str]:
    """The offset message ids of records of one store, by their places."""
    without_offset = encode_offset_message_id(store_host, 0)[:-16]
    return [f"{without_offset}{offset:016X}" for offset in commit_log_offsets]


def decode_offset_message_id(message_id: str) -> MessagePlace:
    """The place in an offset message id.

    Raises:
        IllegalMessageId: It is not 32 or 56 hex digits.
    """
    try:
        packed = bytes.fromhex(message_id)
    except ValueError:
        packed = b""
    if len(packed) not in (_IPV4_PLACE_BYTES, _IPV6_PLACE_BYTES):
        raise IllegalMessageId(f"{message_id!r}: an offset message id has 32 or 56 hex digits")
    port, commit_log_offset = _PLACE.unpack_from(packed, len(packed) - _PLACE.size)
    ip = ip_text(packed[: -_PLACE.size])
    return MessagePlace((ip, port), CommitLogOffset(commit_log_offset))


class UniqueIdGenerator:
    """Makes the unique ids of one producer process, in the shape of RocketMQ's clients.

    Ids of one generator never repeat within a month: time and counter together only grow, even if
    the clock steps back or more than 65,536 ids are made in one millisecond. Months begin at
    midnight UTC. Not for several threads at once.
    """

    __slots__ = (
        "_clock_ms",
        "_counter",
        "_latest_ms",
        "_month_end_ms",
        "_month_start_ms",
        "_prefix",
        "_stamp",
    )

    def __init__(self, clock_ms: Callable[[], int], *, ip: str, pid: int, origin: int) -> None:
        """Start at counter 0.

        Args:
            clock_ms: Milliseconds since the epoch.
            ip: Address of this machine, IPv4 or IPv6.
            pid: Id of this process; its lower 16 bits count.
            origin: 32 random bits that distinguish generators of one process, and processes whose
                pids have the same lower bits.
        """
        packed = ip_address(ip).packed
        own = struct.pack(">HI", pid & 0xFFFF, origin & 0xFFFFFFFF)
        self._prefix = (packed + own).hex().upper()
        self._clock_ms = clock_ms
        self._counter = 0
        self._month_start_ms = 0
        self._month_end_ms = 0
        self._enter_millisecond(clock_ms())

    @property
    def digit_count(self) -> int:
        """Hex digits of each id."""
        return len(self._stamp) + _COUNTER_DIGITS

    def next_id(self) -> str:
        """A new unique id: 32 hex digits, or 56 with an IPv6 address."""
        now_ms = self._clock_ms()
        if now_ms > self._latest_ms:
            self._enter_millisecond(now_ms)
        counter = self._counter
        self._counter = counter + 1
        unique_id = f"{self._stamp}{counter:04X}"
        if counter == _COUNTER_LAST:
            # The counter starts over, so this time must not be used again.
            self._counter = 0
            self._enter_millisecond(self._latest_ms + 1)
        return unique_id

    def next_ids(self, count: int) -> UniqueIds:
        """Many new unique ids, the same as from ``count`` calls of ``next_id`` in one millisecond.

        Args:
            count: The number of ids, 1 or more.
        """
        now_ms = self._clock_ms()
        if now_ms > self._latest_ms:
            self._enter_millisecond(now_ms)
        runs: list[IdRun] = []
        while count:
            counter = self._counter
            end = min(counter + count, _COUNTER_LAST + 1)
            runs.append(IdRun(self._stamp, counter, end))
            count -= end - counter
            self._counter = end
            if end > _COUNTER_LAST:
                self._counter = 0
                self._enter_millisecond(self._latest_ms + 1)
        return UniqueIds(runs)

    def _enter_millisecond(self, now_ms: int) -> None:
        self._latest_ms = now_ms
        if now_ms >= self._month_end_ms:
            self._enter_month()
        self._stamp = f"{self._prefix}{now_ms - self._month_start_ms:08X}"

    def _enter_month(self) -> None:
        now = datetime.fromtimestamp(self._latest_ms / 1000, UTC)
        start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if now.month == _DECEMBER:
            end = start.replace(year=start.year + 1, month=1)
        else:
            end = start.replace(month=start.month + 1)
        self._month_start_ms = int(start.timestamp()) * 1000
        self._month_end_ms = int(end.timestamp()) * 1000


@cache
def _counter_hashes() -> NDArray[np.uint32]:
    """The contribution of every counter's digits to an id's hash, less that of zeros."""
    words = np.zeros(_COUNTER_LAST + 1, np.uint32)
    for column in _counter_digits().T:
        words *= np.uint32(_HASH_FACTOR)
        words += column - np.uint32(ord("0"))
    return words


@cache
def _counter_crcs() -> NDArray[np.uint32]:
    """The contribution of every counter's digits to ``pair_crcs``, less that of zeros."""
    crcs = np.zeros(_COUNTER_LAST + 1, np.uint32)
    for place, column in enumerate(_counter_digits().T):
        crcs ^= zero_shift(BYTE_CRCS, _COUNTER_DIGITS - place)[column ^ ord("0")]
    return crcs


@cache
def _counter_digits() -> NDArray[np.uint8]:
    """The four hex digits of every counter: uint8[65536, 4]."""
    counters = np.arange(_COUNTER_LAST + 1)
    nibbles = counters[:, np.newaxis] >> np.array([12, 8, 4, 0]) & 0xF
    digits: NDArray[np.uint8] = np.frombuffer(b"0123456789ABCDEF", np.uint8)[nibbles]
    return digits
