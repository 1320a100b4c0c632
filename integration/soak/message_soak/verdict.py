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
consumer stores every 5 s and at its end, so a killed one repeats 5 s of its share of the group. A
broker writes offsets down every 5 s and at its end, so a killed one repeats 10 s of its share, and
so does one that lost power: it flushes synchronously, and hands out nothing that it can lose. What
ends in order repeats nothing but what the handover of queues costs: a second. A clock that jumps
repeats nothing. A receiving group repeats what was in hand, which is less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ariane_record.counted import counted
from message_soak.chaos import Disturbed, Kind, Manner
from message_soak.ledger import Receipt, SentLedger, message_group

CONSUMER_UNSTORED_S: Final = 5.0
BROKER_UNSTORED_S: Final = 10.0
HANDOVER_S: Final = 1.0
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
            yield f"{self.group}: {self.repeated} repeats, at most {self.repeats_max} are allowed"


def unstored_seconds(disturbed: Mapping[Disturbed, int], *, members: int, brokers: int) -> float:
    """Seconds of a group's receipts that may be repeated after these disturbances.

    Args:
        disturbed: How often which kind of process ended in which manner.
        members: Consumers of the group.
        brokers: Brokers of the cluster.
    """
    of_one = {
        Kind.CONSUMER: CONSUMER_UNSTORED_S / members,
        Kind.BROKER: BROKER_UNSTORED_S / brokers,
    }
    return sum(
        count * (HANDOVER_S + (of_one[kind] if manner in UNSTORED_MANNERS else 0.0))
        for (kind, manner), count in disturbed.items()
        if kind in of_one
    )


def judge_group(
    group: str,
    sent: Mapping[str, SentLedger],
    receipts: Sequence[Receipt],
    settled: Iterable[Receipt] = (),
    *,
    unstored_s: float,
    duration_s: float,
) -> Findings:
    """Judge one consumer group.

    Args:
        group: Its name; one that begins with ``ordered`` consumes in order.
        sent: What each producer says.
        receipts: What its members say, in any order.
        settled: What they acknowledged, if it is a receiving group.
        unstored_s: Seconds of receipts that the disturbances allow to be repeated.
        duration_s: How long producers sent.
    """
    findings = Findings(group)
    offsets_of: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    for receipt in receipts:
        offsets_of[receipt.producer, receipt.number].add((receipt.queue, receipt.queue_offset))
    placed = sum(map(len, offsets_of.values()))
    findings.received = len(offsets_of)
    findings.repeated = len(receipts) - placed
    a_second = placed / max(duration_s, 1.0)
    findings.repeats_max = int(unstored_s * a_second)
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
