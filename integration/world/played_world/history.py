"""What clients have done and seen, as the oracle needs it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple


class Place(NamedTuple):
    """Where a message lies."""

    topic: str
    broker: str
    queue_id: int
    offset: int


@dataclass(slots=True)
class Sent:
    """A message that was sent."""

    value: str
    """Its body, of which there is only one."""
    topic: str
    group: str
    """Its message group; empty for none."""
    number: int
    """Its place among those of its sender."""
    sent_s: float
    """When, by the world's clock."""
    due_s: float = 0.0
    """Before when nobody may get it."""
    outcome: str = "open"
    """One of "open", "acknowledged", "unknown", "refused" or "rolled back"."""
    place: Place | None = None
    """Where it was said to lie."""
    told_s: float = inf
    """When its sender was told of its outcome."""
    is_half: bool = False
    """Whether it is there only once its sender has decided so."""

    def end(self, outcome: str, now_s: float, place: Place | None = None) -> None:
        """Its sender knows what became of it."""
        self.outcome, self.told_s, self.place = outcome, now_s, place


class Delivered(NamedTuple):
    """A message that a consumer got."""

    at_s: float
    group: str
    member: str
    place: Place
    value: str


class Told(NamedTuple):
    """A consumer offset, as a broker has told it."""

    at_s: float
    """When."""
    group: str
    """The group."""
    queue: tuple[str, str, int]
    """Topic, broker and number of the queue."""
    offset: int
    """The next queue offset that the group will consume."""
    process_id: int
    """Which life of the broker."""


class Reset(NamedTuple):
    """A group that an operator sets back."""

    begin_s: float
    """When that is asked for."""
    topic: str
    """In which topic; empty for all, where the group is deleted."""


class Moved(NamedTuple):
    """A queue of a group that an operator has set back, and was told so."""

    begin_s: float
    """When that was asked for."""
    group: str
    """The group."""
    place: Place
    """What it gets next, of its queue."""


class Refusal(NamedTuple):
    """What a broker has refused a client."""

    what: str
    """The function of the SDK that has logged it."""
    reason: str
    """The reason of its error."""
    topic: str
    """The topic that the error names; empty if none."""
    words: str
    """What was logged."""


@dataclass(slots=True)
class Deletion:
    """The deletion of a topic at all brokers: between these two, or perhaps never."""

    begin_s: float
    """When it was asked for."""
    end_s: float = inf
    """When all had answered that it is done; infinite as long as that is not known."""


@dataclass(slots=True)
class History:
    """All of it."""

    sent: dict[str, Sent] = field(default_factory=dict)
    """Messages by value."""
    delivered: list[Delivered] = field(default_factory=list)
    """In order."""
    groups: dict[str, list[str]] = field(default_factory=dict)
    """Topics of each consumer group."""
    ordered: set[str] = field(default_factory=set)
    """Groups that consume in order."""
    seen: dict[str, dict[str, None]] = field(default_factory=dict)
    """Values that each group is done with."""
    offsets: list[Told] = field(default_factory=list)
    """What brokers on their own have told of consumer offsets, in order."""
    settled: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a receiving group was told that a message is settled, by group and value."""
    set_ahead_s: float = 0.0
    """How far clocks of brokers were set ahead, all together."""
    was_held_up: bool = False
    """Whether a client may have had messages in hand for longer than its listener takes."""
    pace: float = 1.0
    """How slow the slowest clock of a broker is, by the fastest one, and by a right one."""
    deletions: dict[str, list[Deletion]] = field(default_factory=dict)
    """Of topics that were deleted."""
    begun_s: dict[str, float] = field(default_factory=dict)
    """Since when groups get all, which begin with the newest messages."""
    resets: dict[str, list[Reset]] = field(default_factory=dict)
    """Where operators have set groups back, or may have, by group."""
    moves: list[Moved] = field(default_factory=list)
    """Which queues operators have set back, to where, in order."""
    refusals: list[Refusal] = field(default_factory=list)
    """What brokers have refused members of groups, as these have logged it."""
    lags: dict[str, int] | None = None
    """What groups had left at the end, as brokers told it, by queue; None if nobody knows."""
    changes: Counter[str] = field(default_factory=Counter)
    """How often operators have done what."""

    def begin(self, group: str, now_s: float) -> None:
        """A group that begins with the newest messages gets all from now on."""
        self.begun_s[group] = min(now_s, self.begun_s[group])

    def take_part(
        self, group: str, topics: list[str], *, ordered: bool, is_late: bool = False
    ) -> None:
        """A group is to get all messages of some topics, of some time if it is late."""
        if is_late:
            self.begun_s[group] = inf
        self.groups[group] = topics
        self.seen.setdefault(group, {})
        if ordered:
            self.ordered.add(group)

    def end_sender(self, prefix: str) -> None:
        """A sender has ended, perhaps killed: nobody will hear what became of what it sent.

        Of a transaction that is not decided then everybody knows: nobody will ever commit it.
        """
        for value, sent in self.sent.items():
            if sent.outcome == "open" and value.startswith(prefix):
                sent.outcome = "rolled back" if sent.is_half else "unknown"

    def finish(self, group: str, value: str) -> None:
        """A consumer is done with a message: it need not come again."""
        self.seen[group][value] = None

    def begin_deletion(self, topic: str, now_s: float) -> Deletion:
        """A topic is being deleted."""
        deletion = Deletion(now_s)
        self.deletions.setdefault(topic, []).append(deletion)
        return deletion

    def note_reset(self, group: str, now_s: float, topic: str = "") -> None:
        """A group is being set back in a topic, or in all: it gets again what it is done with."""
        self.resets.setdefault(group, []).append(Reset(now_s, topic))

    def was_reset(self, group: str, topic: str, after_s: float, before_s: float = inf) -> bool:
        """Whether a group was set back in a topic between two times, exclusive."""
        return any(
            after_s < reset.begin_s < before_s and reset.topic in ("", topic)
            for reset in self.resets.get(group, ())
        )

    @property
    def not_begun(self) -> list[str]:
        """Groups that begin with the newest messages, and have not begun: nothing is theirs."""
        return [group for group, since_s in self.begun_s.items() if since_s == inf]

    def was_deleted(self, sent: Sent) -> bool:
        """Whether a message may have gone with its topic."""
        deletions = self.deletions.get(sent.topic, ())
        return any(sent.sent_s <= deletion.end_s for deletion in deletions)

    @property
    def acknowledged(self) -> list[Sent]:
        """Those whose senders were told that they are stored."""
        return [sent for sent in self.sent.values() if sent.outcome == "acknowledged"]

    @property
    def repeats(self) -> dict[str, int]:
        """How often each group got again what lies in one place."""
        seen: set[tuple[str, Place]] = set()
        counts = dict.fromkeys(self.groups, 0)
        for got in self.delivered:
            counts[got.group] += (got.group, got.place) in seen
            seen.add((got.group, got.place))
        return counts

    def missing(self, group: str) -> list[Sent]:
        """Acknowledged messages that a group has not got yet."""
        seen, topics = self.seen[group], self.groups[group]
        since_s = self.begun_s.get(group, 0.0)
        return [
            sent
            for sent in self.acknowledged
            if sent.value not in seen
            and sent.topic in topics
            and sent.sent_s >= since_s
            and not self.was_deleted(sent)
        ]
