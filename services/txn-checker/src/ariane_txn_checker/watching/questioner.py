"""Asks producers about the transactions of one broker.

Many transactions are attended to at once, and no producer group has more than its share: a group
that never answers delays no other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from ariane_servicekit import Clock, get_logger
from ariane_servicekit.clock import sleep_until_woken
from ariane_servicekit.database import Database
from ariane_txn_checker.database import CheckStore
from ariane_txn_checker.errors import (
    BrokerFailed,
    BrokerUnreachable,
    LeaseLost,
    NobodyAnswered,
    OutcomeStands,
    TransactionForgotten,
)
from ariane_txn_checker.transaction import (
    Answer,
    CheckedTransaction,
    Lease,
    Outcome,
    TransactionKey,
)
from ariane_txn_checker.watching.brokers import Broker, Brokers

WAIT_S_MAX: Final = 2.0
"""Seconds between looks for due transactions: an operator may have had one resumed."""

WAIT_S_MIN: Final = 0.02

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CheckRules:
    """How often a transaction is checked, and how many at once."""

    interval_ms: int
    """Time between two checks of one transaction."""

    check_count_max: int
    """Number of checks after which a transaction is parked."""

    retry_ms: int
    """Time until the next try, if the broker could not be reached."""

    concurrency: int
    """Transactions of one broker that are attended to at once."""

    group_concurrency: int
    """The same for one producer group."""


@dataclass(slots=True)
class CheckCounts:
    """Counts since the checker's start."""

    checks: int = 0
    unanswered: int = 0
    decided: int = 0
    parked: int = 0


@dataclass(slots=True)
class _InWork:
    """The transactions that are attended to now."""

    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    groups: Counter[str] = field(default_factory=Counter)


class Questioner:
    """Attends to the due transactions of one broker, for as long as a lease lasts."""

    def __init__(
        self,
        brokers: Brokers,
        lease: Lease,
        database: Database,
        clock: Clock,
        *,
        rules: CheckRules,
        counts: CheckCounts,
    ) -> None:
        self._brokers = brokers
        self._lease = lease
        self._database = database
        self._checks = CheckStore(database)
        self._rules = rules
        self._counts = counts
        self._clock = clock
        self._work = _InWork()
        self._woken = asyncio.Event()
        self._lost: LeaseLost | None = None

    def wake(self) -> None:
        """Look for due transactions now."""
        self._woken.set()

    async def run(self) -> None:
        """Attend to due transactions until cancelled.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        try:
            while self._lost is None:
                self._woken.clear()
                if not await self._begin_due():
                    await sleep_until_woken(self._clock, await self._pause_s(), self._woken)
        finally:
            await self._end_all()
        raise self._lost

    async def _begin_due(self) -> bool:
        """Begin to attend to due transactions, within the limits; return whether there were any."""
        free = self._rules.concurrency - len(self._work.tasks)
        if free <= 0:
            return False
        share = self._rules.group_concurrency
        due = await self._database.call(
            self._checks.due,
            self._lease,
            limit=free,
            group_limit=share,
            busy_groups=[group for group, count in self._work.groups.items() if count >= share],
            busy_ids=list(self._work.tasks),
        )
        begun = False
        for transaction in due:
            if self._work.groups[transaction.producer_group] < share:
                self._begin(transaction)
                begun = True
        return begun

    def _begin(self, transaction: CheckedTransaction) -> None:
        transaction_id, group = transaction.key.transaction_id, transaction.producer_group

        def ended(_task: asyncio.Task[None]) -> None:
            del self._work.tasks[transaction_id]
            self._work.groups[group] -= 1
            if not self._work.groups[group]:
                del self._work.groups[group]
            self._woken.set()

        task = asyncio.create_task(self._attend(transaction), name=f"check:{transaction_id}")
        self._work.tasks[transaction_id] = task
        self._work.groups[group] += 1
        task.add_done_callback(ended)

    async def _pause_s(self) -> float:
        if self._work.tasks:
            # The end of any attended transaction wakes this loop; due ones may lack room until
            # then.
            return WAIT_S_MAX
        wait_ms = await self._database.call(self._checks.next_due_in_ms, self._lease)
        return WAIT_S_MAX if wait_ms is None else min(WAIT_S_MAX, max(WAIT_S_MIN, wait_ms / 1000))

    async def _end_all(self) -> None:
        tasks = list(self._work.tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _attend(self, transaction: CheckedTransaction) -> None:
        """Do what is due for a transaction; a failure here affects no other transaction."""
        key = transaction.key
        try:
            await self._step(transaction)(self._brokers.broker(key.broker), transaction)
        except LeaseLost as lost:
            self._lost = lost
        except BrokerUnreachable as error:
            _log.info("broker_unreachable", broker=str(key.broker), error=str(error))
            await self._keep(self._postpone(key, self._rules.retry_ms))
        except BrokerFailed as error:
            _log.warning("broker_failed", transaction_id=key.transaction_id, error=str(error))
            await self._keep(self._postpone(key, self._rules.interval_ms))
        except Exception:  # noqa: BLE001 - others are asked about all the same
            _log.exception("check_failed", transaction_id=key.transaction_id)
            # The transaction is still due: it stays marked for a while, to avoid a busy loop.
            await self._clock.sleep(self._rules.retry_ms / 1000)

    def _step(
        self, transaction: CheckedTransaction
    ) -> Callable[[Broker, CheckedTransaction], Awaitable[None]]:
        if transaction.unlisted:
            return self._learn
        if transaction.check_count >= self._rules.check_count_max:
            return self._park
        return self._check

    async def _check(self, broker: Broker, transaction: CheckedTransaction) -> None:
        """Ask a producer, and act on the answer."""
        key = transaction.key
        number = await self._database.call(
            self._checks.begin_check, self._lease, key, interval_ms=self._rules.interval_ms
        )
        if number is None:
            return
        try:
            answer = await broker.ask(key.transaction_id, check_count=transaction.check_count)
        except BrokerUnreachable:
            await self._undo(key, number)
            return
        except NobodyAnswered as silence:
            self._counts.checks += 1
            self._counts.unanswered += 1
            await self._note(key, number, silence.reason)
        except (OutcomeStands, TransactionForgotten) as ended:
            await self._undo(key, number)
            await self._note_end(key, _outcome_of(ended))
        else:
            self._counts.checks += 1
            await self._note(key, number, answer)
            if answer.outcome.decides:
                await self._end(broker, transaction, answer)

    async def _learn(self, broker: Broker, transaction: CheckedTransaction) -> None:
        """Learn the outcome of a transaction that the broker no longer lists."""
        key = transaction.key
        try:
            answer = await broker.ask(key.transaction_id, check_count=transaction.check_count)
        except (OutcomeStands, TransactionForgotten) as ended:
            await self._note_end(key, _outcome_of(ended))
            return
        except NobodyAnswered:
            answer = Answer(Outcome.UNKNOWN, "")
        if answer.outcome.decides:
            await self._end(broker, transaction, answer)
            return
        # The transaction is pending after all.
        await self._database.call(
            self._checks.note_listed, self._lease, key, interval_ms=self._rules.interval_ms
        )

    async def _park(self, broker: Broker, transaction: CheckedTransaction) -> None:
        """Park a transaction that has had all its checks."""
        key = transaction.key
        try:
            await broker.park(key.transaction_id, check_count=transaction.check_count)
        except (OutcomeStands, TransactionForgotten) as ended:
            await self._note_end(key, _outcome_of(ended))
            return
        if await self._database.call(self._checks.park, self._lease, key):
            self._counts.parked += 1
            _log.warning(
                "transaction_parked",
                transaction_id=key.transaction_id,
                broker=str(key.broker),
                topic=transaction.topic,
                producer_group=transaction.producer_group,
            )

    async def _end(self, broker: Broker, transaction: CheckedTransaction, answer: Answer) -> None:
        """Carry out a producer's answer. The broker may have decided before; its outcome stands."""
        try:
            outcome = await broker.end(transaction, answer.outcome)
        except TransactionForgotten:
            outcome = Outcome.UNSPECIFIED
        decider = answer.client_id if outcome is answer.outcome else ""
        await self._note_end(transaction.key, outcome, decider)

    async def _note_end(self, key: TransactionKey, outcome: Outcome, decider: str = "") -> None:
        if await self._database.call(self._checks.decide, self._lease, key, outcome, decider):
            self._counts.decided += outcome.decides
            _log.info(
                "transaction_ended",
                transaction_id=key.transaction_id,
                broker=str(key.broker),
                outcome=outcome.name,
            )

    async def _note(self, key: TransactionKey, number: int, answer: Answer | str) -> None:
        await self._database.call(self._checks.end_check, self._lease, key, number, answer)

    async def _undo(self, key: TransactionKey, number: int) -> None:
        await self._database.call(
            self._checks.undo_check, self._lease, key, number, wait_ms=self._rules.retry_ms
        )

    async def _postpone(self, key: TransactionKey, wait_ms: int) -> None:
        await self._database.call(self._checks.postpone, self._lease, key, wait_ms=wait_ms)

    async def _keep(self, write: Awaitable[None]) -> None:
        """Write after a failure; raises if the lease was lost, and logs any other failure."""
        try:
            await write
        except LeaseLost as lost:
            self._lost = lost
        except Exception:  # noqa: BLE001 - the row is due still
            _log.exception("postpone_failed")
            await self._clock.sleep(self._rules.retry_ms / 1000)


def _outcome_of(ended: OutcomeStands | TransactionForgotten) -> Outcome:
    return ended.outcome if isinstance(ended, OutcomeStands) else Outcome.UNSPECIFIED
