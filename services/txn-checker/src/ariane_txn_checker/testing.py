"""A broker's transactions in memory, for tests of checkers: the twin of the broker's own.

One contract test runs on it and on a real broker.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ariane_servicekit import Clock
from ariane_txn_checker.errors import (
    BrokerFailed,
    BrokerUnreachable,
    NobodyAnswered,
    OutcomeStands,
    TransactionForgotten,
)
from ariane_txn_checker.transaction import (
    Answer,
    BrokerKey,
    CheckedTransaction,
    HalfMessage,
    HalfMessagePage,
    Outcome,
)
from ariane_txn_checker.watching.brokers import Broker

ANSWER_S_MAX = 3.0
"""How long a broker waits for a producer."""

Producer = Callable[[str], Outcome | None]
"""Tells how a transaction ended; None if it does not answer."""


@dataclass(slots=True)
class StoredHalf:
    """A half message in the broker's log, and its history."""

    half_message: HalfMessage
    outcome: Outcome | None = None
    decisions: list[Outcome] = field(default_factory=list)
    """Every outcome that took effect: one at most, or the broker is wrong."""
    copy_count: int = 0
    """Copies in the topic of parked transactions."""
    ask_count: int = 0
    """How often a producer was asked."""


class TwinBroker:
    """The transactions of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offsets = itertools.count()
        self._op_count = 0
        self.halves: dict[str, StoredHalf] = {}
        """Every half message by transaction id."""
        self.producers: dict[str, Producer] = {}
        """One living producer by group."""
        self.reachable = True
        """Whether the broker answers."""
        self.lost_answer_count = 0
        """Number of next answers to lose after the work was done."""
        self.between_pages: Callable[[], object] | None = None
        """Called once between two pages of a list."""

    def store(
        self, transaction_id: str, *, group: str = "payments", immunity_ms: int | None = None
    ) -> None:
        """Store a half message now."""
        self.halves[transaction_id] = StoredHalf(
            HalfMessage(
                transaction_id=transaction_id,
                unique_id=f"unique-{transaction_id}",
                topic="orders",
                producer_group=group,
                keys=(f"key-{transaction_id}",),
                store_ms=self._clock.now_ms(),
                immunity_ms=immunity_ms,
                half_queue_offset=next(self._offsets),
                parked=False,
            )
        )

    def settle(self, transaction_id: str, outcome: Outcome) -> Outcome:
        """End a transaction, as its producer does; return the outcome that now stands."""
        stored = self._stored(transaction_id)
        if stored.outcome is None:
            stored.outcome = outcome
            stored.decisions.append(outcome)
            self._op_count += 1
        return stored.outcome

    def carry_forward(self, transaction_id: str) -> None:
        """Store a half message anew at the end, as a broker does before retention reaches it."""
        stored = self._stored(transaction_id)
        offset = next(self._offsets)
        stored.half_message = replace(stored.half_message, half_queue_offset=offset)

    def lose_outcome(self, transaction_id: str) -> None:
        """Lose the end of the log and with it a transaction's outcome; other records follow."""
        stored = self._stored(transaction_id)
        stored.outcome = None
        stored.decisions.clear()
        self._op_count += 1

    def forget(self, transaction_id: str) -> None:
        """Lose a half message, as retention does."""
        del self.halves[transaction_id]
        self._op_count += 1

    async def list_half_messages(
        self, *, page_size: int, page_token: str = "", begin_queue_offset: int = 0
    ) -> HalfMessagePage:
        """List half messages without an outcome."""
        self._reach()
        begin = max(begin_queue_offset, int(page_token or 0))
        found = [
            replace(stored.half_message, parked=stored.copy_count > 0)
            for stored in self.halves.values()
            if stored.outcome is None and stored.half_message.half_queue_offset >= begin
        ]
        found.sort(key=lambda half_message: half_message.half_queue_offset)
        page, rest = found[:page_size], found[page_size:]
        ends = [stored.half_message.half_queue_offset + 1 for stored in self.halves.values()]
        answer = HalfMessagePage(
            half_messages=page,
            next_page_token=str(rest[0].half_queue_offset) if rest else "",
            half_queue_offset_end=max(ends, default=0),
            op_queue_offset_end=self._op_count,
            answer_ms=self._clock.now_ms(),
        )
        if rest and self.between_pages is not None:
            happening, self.between_pages = self.between_pages, None
            happening()
        self._lose_answer()
        return answer

    async def ask(self, transaction_id: str, *, check_count: int) -> Answer:  # noqa: ARG002 - as the contract has it
        """Ask the group's producer."""
        self._reach()
        stored = self._open(transaction_id)
        group = stored.half_message.producer_group
        producer = self.producers.get(group)
        if producer is None:
            reason = "CLIENT_NOT_ATTACHED"
            raise NobodyAnswered(reason)
        stored.ask_count += 1
        outcome = producer(transaction_id)
        if outcome is None:
            await self._clock.sleep(ANSWER_S_MAX)
            reason = "DEADLINE_PASSED"
            raise NobodyAnswered(reason)
        try:
            self._lose_answer()
        except BrokerFailed as lost:
            raise NobodyAnswered(lost.reason) from lost
        return Answer(outcome, f"producer-of-{group}")

    async def end(self, transaction: CheckedTransaction, outcome: Outcome) -> Outcome:
        """End a transaction."""
        self._reach()
        standing = self.settle(transaction.key.transaction_id, outcome)
        self._lose_answer()
        return standing

    async def park(self, transaction_id: str, *, check_count: int) -> None:  # noqa: ARG002 - as the contract has it
        """Park a copy, once."""
        self._reach()
        stored = self._open(transaction_id)
        stored.copy_count = 1
        self._lose_answer()

    def _reach(self) -> None:
        if not self.reachable:
            raise BrokerUnreachable("it is away")

    def _lose_answer(self) -> None:
        if self.lost_answer_count:
            self.lost_answer_count -= 1
            reason = "UNAVAILABLE"
            raise BrokerFailed(reason, "the connection broke")

    def _stored(self, transaction_id: str) -> StoredHalf:
        try:
            return self.halves[transaction_id]
        except KeyError:
            raise TransactionForgotten(transaction_id) from None

    def _open(self, transaction_id: str) -> StoredHalf:
        stored = self._stored(transaction_id)
        if stored.outcome is not None:
            raise OutcomeStands(stored.outcome)
        return stored


class TwinBrokers:
    """Brokers that a test adds by hand."""

    def __init__(self) -> None:
        self.brokers: dict[BrokerKey, TwinBroker] = {}
        """The living brokers."""

    async def refresh(self) -> None:
        """Do nothing."""

    @property
    def keys(self) -> frozenset[BrokerKey]:
        """The living brokers."""
        return frozenset(self.brokers)

    def broker(self, key: BrokerKey) -> Broker:
        """The twin itself."""
        try:
            return self.brokers[key]
        except KeyError:
            raise BrokerUnreachable(f"nobody knows {key}") from None
