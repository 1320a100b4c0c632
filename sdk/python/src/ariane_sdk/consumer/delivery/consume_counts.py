"""What a listener has done, by topic: how many messages, how many failed, and how long it took.

Operators ask for it (``ariane group running``). Rates are of the last half minute to minute: two
windows of 30 s, of which the older one is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ariane_sdk.client.listener import Deliver
from ariane_sdk.consumer.delivery.failed_messages import failed_messages
from ariane_sdk.message import ReceivedMessage

WINDOW_S: Final = 30.0

TOPICS_MAX: Final = 100
"""Topics that are counted one by one, as many as one answer may have."""


@dataclass(slots=True)
class _Counts:
    """Of one window."""

    done_count: int = 0
    failed_count: int = 0
    busy_s: float = 0.0
    """Seconds in the listener; several calls at once count each."""


@dataclass(slots=True)
class _Topic:
    """Of one topic."""

    begun_s: float
    """When the present window began."""
    first_s: float
    """When the older one began, or the counting."""
    earlier: _Counts = field(default_factory=_Counts)
    """Of all windows before the present one."""
    before: _Counts = field(default_factory=_Counts)
    """Of the older window."""
    now: _Counts = field(default_factory=_Counts)
    """Of the present one."""

    def turn(self, now_s: float) -> None:
        """Begin another window where it is time."""
        if now_s - self.begun_s < WINDOW_S:
            return
        late = now_s - self.begun_s >= 2 * WINDOW_S
        self.earlier.done_count += self.now.done_count
        self.earlier.failed_count += self.now.failed_count
        self.before = _Counts() if late else self.now
        self.first_s = now_s - WINDOW_S if late else self.begun_s
        self.now, self.begun_s = _Counts(), now_s


class ConsumeCounts:
    """Counts calls of a listener."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._topics: dict[str, _Topic] = {}

    def around(self, deliver: Deliver) -> Deliver:
        """The same delivery, counted; a call that was cancelled has done nothing."""
        monotonic_s, topics = self._monotonic_s, self._topics

        async def counted(messages: Sequence[ReceivedMessage]) -> None:
            begun_s = monotonic_s()
            try:
                await deliver(messages)
            except Exception as error:
                failed = failed_messages(messages, error)
                failed_count = 0 if failed.hold is not None else len(failed.messages)
                self._note(messages, failed_count, begun_s, monotonic_s())
                raise
            now_s = monotonic_s()
            topic = topics.get(messages[0].topic)
            if topic is None or now_s - topic.begun_s >= WINDOW_S:
                self._note(messages, 0, begun_s, now_s)
            else:  # Often with a call for each message: nothing is called for it.
                counts = topic.now
                counts.done_count += len(messages)
                counts.busy_s += now_s - begun_s

        return counted

    def _note(
        self,
        messages: Sequence[ReceivedMessage],
        failed_count: int,
        begun_s: float,
        now_s: float,
    ) -> None:
        name = messages[0].topic
        topic = self._topics.get(name)
        if topic is None:
            if len(self._topics) >= TOPICS_MAX:
                return
            topic = self._topics[name] = _Topic(begun_s, begun_s)
        topic.turn(now_s)
        counts = topic.now
        counts.done_count += len(messages) - failed_count
        counts.failed_count += failed_count
        counts.busy_s += now_s - begun_s

    def facts(self) -> Mapping[str, str]:
        """All of it, in words of operators."""
        now_s = self._monotonic_s()
        facts: dict[str, str] = {}
        for name, topic in sorted(self._topics.items()):
            topic.turn(now_s)
            span_s = max(now_s - topic.first_s, 1e-3)
            recent = (topic.before, topic.now)
            done_count = sum(each.done_count for each in recent)
            failed_count = sum(each.failed_count for each in recent)
            busy_s = sum(each.busy_s for each in recent)
            facts |= {
                f"consumed.{name}.done": str(topic.earlier.done_count + topic.now.done_count),
                f"consumed.{name}.failed": str(topic.earlier.failed_count + topic.now.failed_count),
                f"consumed.{name}.done_per_second": f"{done_count / span_s:.2f}",
                f"consumed.{name}.failed_per_second": f"{failed_count / span_s:.2f}",
            }
            if done_count + failed_count:
                mean_ms = busy_s / (done_count + failed_count) * 1000
                facts[f"consumed.{name}.milliseconds_each"] = f"{mean_ms:.3f}"
        return facts
