"""Attempts to receive that clients repeat, because the answer was lost on its way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.receive_order import HandedOut
from ariane_broker.receive.in_hand.ranges import ranges_of
from ariane_broker.receive.in_hand.receive_events import EventFlag, EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog

ATTEMPTS_MAX: Final = 10_000
"""The latest are remembered, in memory only: without them messages just come later."""

ANSWERS_MAX: Final = 100_000
"""Queues that the remembered attempts were given something of, together: one of them may have been
given a little of very many."""


class _Answer(NamedTuple):
    """What one queue gave."""

    queue: QueueKey
    """The queue."""
    serial: int
    """The serial of the receipt."""


class Attempts:
    """What the answers of the latest attempts had."""

    def __init__(self, log: ReceiveLog) -> None:
        self._log = log
        self._answers: dict[tuple[str, str], tuple[_Answer, ...]] = {}
        self._count = 0

    def note(self, group: str, attempt_id: str, handed: Iterable[HandedOut]) -> None:
        """Note what an attempt was given."""
        if not attempt_id:
            return
        self._take(group, attempt_id)
        answers = tuple(_Answer(out.queue, out.serial) for out in handed)
        self._answers[group, attempt_id] = answers
        self._count += len(answers)
        while len(self._answers) > ATTEMPTS_MAX or self._count > ANSWERS_MAX:
            self._take(*next(iter(self._answers)))

    def repeat(self, group: str, attempt_id: str, now_ms: int) -> None:
        """Show again what an attempt was given that comes again, as far as nobody settled it.

        Raises:
            StorageError: It becomes visible when its invisible time ends.
        """
        answers = self._take(group, attempt_id) if attempt_id else ()
        events = []
        for answer in answers:
            window = self._log.window(group, answer.queue)
            offsets = None if window is None else window.find(answer.serial, None)
            if offsets is not None and len(offsets):
                events.append(
                    ReceiveEvent(
                        EventKind.HIDE,
                        group,
                        answer.queue,
                        EventFlag.GIVEN_BACK,
                        ranges_of(offsets),
                        until_ms=now_ms,
                    )
                )
        if events:
            self._log.write(events)

    def _take(self, group: str, attempt_id: str) -> tuple[_Answer, ...]:
        """Forget an attempt; returns what it was given."""
        answers = self._answers.pop((group, attempt_id), ())
        self._count -= len(answers)
        return answers
