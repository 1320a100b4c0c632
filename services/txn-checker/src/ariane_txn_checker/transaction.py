"""The nouns of the checker: half messages, transactions, checks, leases.

A transaction's life here::

    (listed by its broker)
            |
         WAITING <----------------- resumed by an operator --------------+
            |  due                                                       |
         ASKING --- unknown, nobody answered, or the checker died ---> WAITING, or
            |                                                            |
            |                     asked as often as allowed           PARKED
            |                                                            |
            +---------> DECIDED <--- a producer, or an operator ---------+

The broker's log is the truth: every row can be rebuilt from the broker's list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Outcome(IntEnum):
    """How a transaction ended; numbers of the contract."""

    UNSPECIFIED = 0
    UNKNOWN = 1
    COMMIT = 2
    ROLLBACK = 3

    @property
    def decides(self) -> bool:
        """Whether this outcome ends a transaction."""
        return self in {Outcome.COMMIT, Outcome.ROLLBACK}


class State(IntEnum):
    """The state of a transaction; numbers of the contract, and of the database."""

    WAITING = 1
    ASKING = 2
    DECIDED = 3
    PARKED = 4


OPERATOR = "operator"
"""The decider where an operator decided."""

FORGOTTEN_CAUSE = "the broker no longer knows it"
"""The cause if the outcome can no longer be learned."""


@dataclass(frozen=True, slots=True, order=True)
class BrokerKey:
    """A primary broker."""

    cluster_name: str
    broker_name: str

    def __str__(self) -> str:
        """The broker's name for people."""
        return f"{self.cluster_name}/{self.broker_name}"


@dataclass(frozen=True, slots=True, order=True)
class TransactionKey:
    """A transaction of one broker."""

    broker: BrokerKey
    transaction_id: str


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """A half message without an outcome, as its broker lists it."""

    transaction_id: str
    unique_id: str
    topic: str
    producer_group: str
    keys: Sequence[str]
    store_ms: int
    """When it was stored, milliseconds since 1970 by the broker's clock."""
    immunity_ms: int | None
    """How long it rests before its first check. None: as the settings say."""
    half_queue_offset: int
    parked: bool


@dataclass(frozen=True, slots=True)
class HalfMessagePage:
    """Some half messages of a broker, by queue offset."""

    half_messages: Sequence[HalfMessage]
    next_page_token: str
    half_queue_offset_end: int
    op_queue_offset_end: int
    answer_ms: int
    """The broker's clock, milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A producer's answer; with a cause if it does not know."""

    outcome: Outcome
    client_id: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class CheckedTransaction:
    """A row: a transaction as the checkers know it. Instants are milliseconds since 1970."""

    key: TransactionKey
    unique_id: str
    topic: str
    producer_group: str
    keys: Sequence[str]
    half_queue_offset: int
    store_ms: int
    """By the broker's clock; the other instants are by the database's."""
    first_seen_ms: int
    next_check_ms: int | None
    check_count: int
    """Checks since it was first seen, or since an operator had them resumed."""
    check_number_last: int
    """Checks in total."""
    state: State
    unlisted: bool
    """Whether the broker no longer lists it: then its outcome must be learned, without a check."""
    outcome: Outcome
    decider: str
    cause: str
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One question to a producer, and the answer."""

    check_number: int
    ask_ms: int
    answer_ms: int | None
    answer: Outcome
    client_id: str
    checker_id: str
    failure_reason: str


@dataclass(frozen=True, slots=True)
class Lease:
    """A checker's right to watch one broker."""

    broker: BrokerKey
    checker_id: str
    fencing_token: int
    expire_ms: int
    """By the database's clock."""
    half_queue_offset: int = 0
    op_queue_offset: int = 0
