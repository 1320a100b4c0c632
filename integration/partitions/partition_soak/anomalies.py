"""What must not be in a history, by the names that Jepsen's log workload gives it.

====================== ============================================================================
inconsistent-offsets   one queue offset was seen with two values
duplicate              one value lies at two queue offsets
lost-write             an acknowledged value is nowhere, although later offsets were read
unseen                 an acknowledged value is nowhere; nothing behind it was read
G1a                    an aborted read: a value was read whose send was refused
dirty-read             a value was read that the log does not have in the end
invented               a value was read that nobody sent
poll-skip              a reader went past an offset, from one poll to the next
int-poll-skip          the same within one poll
nonmonotonic-poll      a reader went backwards, from one poll to the next
int-nonmonotonic-poll  the same within one poll
nonmonotonic-send      a client's sends to a queue are not in its order there
int-nonmonotonic-send  the same within one batch
two-primaries          two brokers acknowledged what they had stored in one epoch
====================== ============================================================================

Offsets of our queues have no holes, so that whatever is passed over is a skip.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from partition_soak.history import Entry, History, Outcome, Send

READERS_OF_ALL: Final = "final"


class Anomaly(NamedTuple):
    """Something that must not be."""

    name: str
    """What it is called."""
    what: str
    """The case, for people."""

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


def anomalies(history: History) -> list[Anomaly]:
    """All that is wrong with a history."""
    return [
        *_inconsistent_offsets(history),
        *_duplicates(history),
        *_lost(history),
        *_bad_reads(history),
        *_poll_order(history),
        *_send_order(history),
        *_two_primaries(history),
    ]


def _inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    values: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for send in history.stored:
        values[send.queue, send.queue_offset].setdefault(
            send.value, f"acknowledged by {send.broker}"
        )
    for reader, queue, entry in _reads(history):
        values[queue, entry.queue_offset].setdefault(entry.value, f"read by {reader}")
    for (queue, offset), seen in sorted(values.items()):
        if len(seen) > 1:
            told = ", ".join(f"{value} ({how})" for value, how in seen.items())
            yield Anomaly("inconsistent-offsets", f"{queue}@{offset} is {told}")


def _duplicates(history: History) -> Iterator[Anomaly]:
    for queue, entries in history.final.items():
        places: dict[str, list[int]] = defaultdict(list)
        for entry in entries:
            places[entry.value].append(entry.queue_offset)
        for value, offsets in places.items():
            if len(offsets) > 1:
                yield Anomaly("duplicate", f"{value} lies at {offsets} of queue {queue}")


def _lost(history: History) -> Iterator[Anomaly]:
    last_read: dict[int, int] = defaultdict(lambda: -1)
    for _, queue, entry in _reads(history):
        last_read[queue] = max(last_read[queue], entry.queue_offset)
    there = {(queue, entry) for queue, found in history.final.items() for entry in found}
    for send in history.stored:
        if (send.queue, Entry(send.queue_offset, send.value)) in there:
            continue
        name = "lost-write" if last_read[send.queue] > send.queue_offset else "unseen"
        kept = [entry.queue_offset for entry in history.final.get(send.queue, [])]
        part = "middle"
        if not kept or send.queue_offset < kept[0]:
            part = "prefix"
        elif send.queue_offset > kept[-1]:
            part = "postfix"
        where = f"{send.queue}@{send.queue_offset}, log {send.commit_log_offset}"
        yield Anomaly(name, f"{send.value} at {where} by {send.broker}: {part}")


def _bad_reads(history: History) -> Iterator[Anomaly]:
    sent = {send.value: send.outcome for send in history.sends}
    final = {entry.value for entries in history.final.values() for entry in entries}
    told: set[tuple[str, str]] = set()
    for reader, queue, entry in _reads(history):
        name = ""
        if entry.value not in sent:
            name = "invented"
        elif sent[entry.value] is Outcome.REFUSED:
            name = "G1a"
        elif entry.value not in final:
            name = "dirty-read"
        if name and (name, entry.value) not in told:
            told.add((name, entry.value))
            yield Anomaly(name, f"{entry.value} at {queue}@{entry.queue_offset}, by {reader}")


def _poll_order(history: History) -> Iterator[Anomaly]:
    positions: dict[tuple[str, int], int] = {}
    for reader, queue, entries in history.polls:
        for prefix, before, after in (
            *((("int-", a.queue_offset, b.queue_offset)) for a, b in pairwise(entries)),
            *(
                ("", positions[reader, queue], entries[0].queue_offset)
                for _ in range(1)
                if entries and (reader, queue) in positions
            ),
        ):
            if after == before + 1:
                continue
            name = "poll-skip" if after > before else "nonmonotonic-poll"
            yield Anomaly(f"{prefix}{name}", f"{reader} in queue {queue}: {before}, then {after}")
        if entries:
            positions[reader, queue] = entries[-1].queue_offset


def _send_order(history: History) -> Iterator[Anomaly]:
    before: dict[tuple[str, int], Send] = {}
    for send in history.stored:
        last = before.get((send.client, send.queue))
        before[send.client, send.queue] = send
        if last is None or last.queue_offset < send.queue_offset:
            continue
        prefix = "int-" if last.batch == send.batch else ""
        text = f"{send.value} at {send.queue_offset} after {last.value} at {last.queue_offset}"
        yield Anomaly(f"{prefix}nonmonotonic-send", f"queue {send.queue}: {text}")


def _two_primaries(history: History) -> Iterator[Anomaly]:
    begins = [begin for _, begin in history.epochs]
    brokers: dict[int, dict[str, str]] = defaultdict(dict)
    for send in history.stored:
        row = bisect_right(begins, send.commit_log_offset) - 1
        if send.repeated or row < 0:
            continue
        brokers[history.epochs[row][0]].setdefault(send.broker, send.value)
    for epoch, acknowledged in sorted(brokers.items(), key=itemgetter(0)):
        if len(acknowledged) > 1:
            told = ", ".join(f"{broker} ({value})" for broker, value in acknowledged.items())
            yield Anomaly("two-primaries", f"epoch {epoch}: {told}")


def _reads(history: History) -> Iterator[tuple[str, int, Entry]]:
    """Whatever anybody read: who, in which queue, what."""
    for reader, queue, entries in history.polls:
        for entry in entries:
            yield reader, queue, entry
    for queue, entries in history.final.items():
        for entry in entries:
            yield READERS_OF_ALL, queue, entry
