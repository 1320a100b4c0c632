"""What the ledgers prove: nothing lost, order kept, repeats within the bound.

Checked for each consumer group on its own:

* **lost**: a message was acknowledged, and no member of the group ever received it.
* **stored twice**: the same message lies at two queue offsets, although producers number their
  batches so that a repeated one is stored once.
* **out of order**: in the queue, an acknowledged message of a message group lies behind a later one
  of that group, or in another queue; or a group that consumes in order got a message for the first
  time before an earlier one of its queue.
* **repeated**: the same queue offset was received again. At least once allows it, within a bound.
* **invented**: a message was received that nobody sent, or that was surely refused.
* **returned**: a receiving group acknowledged a message, and it was handed out once more. Each time
  counts as an attempt, and only the latest can be acknowledged.

The bound on repeats: what can come again is what was received since its offset was last kept. A
consumer stores every 5 s and at its end, so a killed one repeats what it got in the last 5 s. A
broker writes offsets down every 5 s and at its end, so a killed one repeats what it handed out in
the last 10 s, and so does one that lost power: it flushes synchronously, and hands out nothing that
it can lose. What ends in order repeats nothing but what the handover of queues costs: a second of
its group, when it goes and when it is back. A clock that jumps repeats nothing. A receiving group
repeats what was in hand, which is less.

What they got is counted from the ledgers: a group that catches up gets more in a second than in
most. On a machine with too much to do all of this takes longer, by as much as the processes of the
soak have found themselves late; and who stands still for so long that its connections are given up
is treated by others as if it were dead, and counts as killed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from ariane_record.counted import counted
from message_soak.chaos import Kind, Manner
from message_soak.ledger import Receipt, SentLedger, message_group

CONSUMER_UNSTORED_S: Final = 5.0
BROKER_UNSTORED_S: Final = 10.0
HANDOVER_S: Final = 1.0
HANDOVERS: Final = 2
"""Of the queues of a process that ends: when it goes, and when it is back."""
ENDS_S: Final = 1.0
"""How long it takes at most from the request to end a process until it is gone."""
GIVEN_UP_S: Final = 5.0
"""Who answers nothing for so long may lose its connections."""
NS_PER_S: Final = 1_000_000_000
UNSTORED_MANNERS: Final = frozenset({Manner.KILL, Manner.POWER})
EXAMPLES_MAX: Final = 5


@dataclass(slots=True)
class Findings:
    """What is wrong with one consumer group, and how often it repeated."""

    group: str
    """The consumer group."""
    received: int = 0
    """Different messages that it received."""
    repeated: int = 0
    """Receipts beyond the first of a queue offset."""
    repeats_max: int = 0
    """The bound."""
    lost: list[str] = field(default_factory=list)
    """Acknowledged messages that it never received."""
    stored_twice: list[str] = field(default_factory=list)
    """Messages at two offsets."""
    out_of_order: list[str] = field(default_factory=list)
    """Messages that came in the wrong order."""
    invented: list[str] = field(default_factory=list)
    """Messages that nobody sent."""
    returned: list[str] = field(default_factory=list)
    """Acknowledged messages that came again."""

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        wrong = (self.lost, self.stored_twice, self.out_of_order, self.invented, self.returned)
        return not any(wrong) and self.repeated <= self.repeats_max

    def sentences(self) -> Iterator[str]:
        """What is wrong, for people; with some of the messages."""
        for what, messages in (
            ("lost", self.lost),
            ("stored twice", self.stored_twice),
            ("out of order", self.out_of_order),
            ("received although nobody sent them", self.invented),
            ("received once more although acknowledged", self.returned),
        ):
            if messages:
                examples = ", ".join(messages[:EXAMPLES_MAX])
                yield f"{self.group}: {counted(len(messages), 'message')} {what}: {examples}"
        if self.repeated > self.repeats_max:
            repeats = counted(self.repeated, "repeat")
            yield f"{self.group}: {repeats}; at most {self.repeats_max} are allowed"


class Ending(NamedTuple):
    """A process that was ended, or taken for dead."""

    kind: Kind
    """What kind of process."""
    name: str
    """Its name."""
    manner: Manner
    """How it ended."""
    time_ns: int
    """When, by the machine's monotonic clock."""


class Stall(NamedTuple):
    """A time in which a process did not get to run."""

    name: str
    """Which process."""
    time_ns: int
    """When it went on."""
    seconds: float
    """How long it stood still."""


def given_up(stalls: Iterable[Stall]) -> list[Ending]:
    """Consumers that stood still for so long that they may have been taken for dead."""
    return [
        Ending(Kind.CONSUMER, each.name, Manner.KILL, each.time_ns)
        for each in stalls
        if each.seconds >= GIVEN_UP_S
    ]


def repeats_max(
    endings: Iterable[Ending], receipts: Mapping[str, Sequence[Receipt]], *, late_s: float
) -> int:
    """How many receipts of a group may be repeats.

    Args:
        endings: Processes that ended; consumers of other groups repeat nothing here.
        receipts: What each member of the group received.
        late_s: For how long processes have stood still at most.
    """
    by_member = {name: sorted(each.time_ns for each in own) for name, own in receipts.items()}
    by_broker: dict[str, list[int]] = defaultdict(list)
    for own in receipts.values():
        for each in own:
            by_broker[each.queue.rpartition("/")[0]].append(each.time_ns)
    for times in by_broker.values():
        times.sort()
    everything = sorted(chain.from_iterable(by_member.values()))
    handover = HANDOVERS * _most_within(everything, HANDOVER_S + late_s)
    bound = 0
    for ending in endings:
        is_member = ending.kind is Kind.CONSUMER and ending.name in by_member
        if not is_member and ending.kind is not Kind.BROKER:
            continue
        bound += handover
        if ending.manner in UNSTORED_MANNERS:
            times = by_member[ending.name] if is_member else by_broker.get(ending.name, [])
            unstored_s = CONSUMER_UNSTORED_S if is_member else BROKER_UNSTORED_S
            bound += _count_before(times, ending, unstored_s + late_s)
    return bound


def _count_before(times: Sequence[int], ending: Ending, seconds: float) -> int:
    """How many of some times, in order, are in the last seconds before a process had ended."""
    begin_ns = ending.time_ns - round(seconds * NS_PER_S)
    end_ns = ending.time_ns + round(ENDS_S * NS_PER_S)
    return bisect_right(times, end_ns) - bisect_left(times, begin_ns)


def _most_within(times: Sequence[int], seconds: float) -> int:
    """The most of some times, in order, within a time of some length."""
    span_ns = round(seconds * NS_PER_S)
    most = first = 0
    for place, time_ns in enumerate(times):
        while time_ns - times[first] > span_ns:
            first += 1
        most = max(most, place - first + 1)
    return most


def judge_group(
    group: str,
    sent: Mapping[str, SentLedger],
    received: Mapping[str, Sequence[Receipt]],
    settled: Iterable[Receipt] = (),
    *,
    endings: Iterable[Ending] = (),
    late_s: float = 0.0,
) -> Findings:
    """Judge one consumer group.

    Args:
        group: Its name; one that begins with ``ordered`` consumes in order.
        sent: What each producer says.
        received: What each of its members says, in any order.
        settled: What they acknowledged, if it is a receiving group.
        endings: Processes that ended.
        late_s: For how long processes have stood still at most.
    """
    findings = Findings(group)
    receipts = [receipt for own in received.values() for receipt in own]
    offsets_of: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    for receipt in receipts:
        offsets_of[receipt.producer, receipt.number].add((receipt.queue, receipt.queue_offset))
    placed = sum(map(len, offsets_of.values()))
    findings.received = len(offsets_of)
    findings.repeated = len(receipts) - placed
    findings.repeats_max = repeats_max(endings, received, late_s=late_s)
    findings.stored_twice = _names(key for key, places in offsets_of.items() if len(places) > 1)
    findings.lost = _names(
        (producer, number)
        for producer, ledger in sent.items()
        for number in sorted(ledger.acknowledged)
        if (producer, number) not in offsets_of
    )
    findings.invented = _names(
        (producer, number)
        for producer, number in offsets_of
        if producer not in sent
        or number not in sent[producer].intended
        or number in sent[producer].refused
    )
    findings.out_of_order = [*_misplaced(sent, offsets_of)]
    findings.returned = [*_returned(receipts, settled)]
    if group.startswith("ordered"):
        findings.out_of_order += _overtaken(receipts)
    return findings


def _misplaced(
    sent: Mapping[str, SentLedger],
    offsets_of: Mapping[tuple[str, int], set[tuple[str, int]]],
) -> Iterator[str]:
    """Acknowledged messages that lie behind later ones of their message group, or elsewhere."""
    for producer, ledger in sent.items():
        latest: dict[str, tuple[str, int]] = {}
        for number in sorted(ledger.acknowledged):
            places = offsets_of.get((producer, number))
            if not places:
                continue
            place, key = min(places), message_group(producer, number)
            before = latest.get(key)
            if before is not None and (before[0] != place[0] or before[1] > place[1]):
                yield f"{producer}.{number} at {place[0]}@{place[1]} after {before[0]}@{before[1]}"
            latest[key] = place


def _overtaken(receipts: Iterable[Receipt]) -> Iterator[str]:
    """Messages that the group received for the first time after later ones of their queue.

    The clock is the machine's monotonic one, the same for all processes.
    """
    first_of: dict[str, dict[int, Receipt]] = defaultdict(dict)
    for receipt in receipts:
        known = first_of[receipt.queue].setdefault(receipt.queue_offset, receipt)
        if receipt.time_ns < known.time_ns:
            first_of[receipt.queue][receipt.queue_offset] = receipt
    for queue, firsts in first_of.items():
        newest_ns = 0
        for queue_offset in sorted(firsts):
            first = firsts[queue_offset]
            if first.time_ns < newest_ns:
                late_ms = (newest_ns - first.time_ns) / 1e6
                yield f"{first.producer}.{first.number} at {queue}@{queue_offset}, {late_ms:.0f} ms"
            newest_ns = max(newest_ns, first.time_ns)


def _returned(receipts: Iterable[Receipt], settled: Iterable[Receipt]) -> Iterator[str]:
    """Messages that were handed out once more after an acknowledged attempt."""
    done: dict[tuple[str, int], int] = {}
    for each in settled:
        key = (each.queue, each.queue_offset)
        done[key] = max(each.attempt, done.get(key, 0))
    for each in receipts:
        attempt = done.get((each.queue, each.queue_offset))
        if attempt is not None and each.attempt > attempt:
            yield f"{each.producer}.{each.number} at {each.queue}@{each.queue_offset}"


def _names(messages: Iterator[tuple[str, int]]) -> list[str]:
    return [f"{producer}.{number}" for producer, number in messages]
