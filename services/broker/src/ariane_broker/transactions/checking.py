"""Asking a live producer of a group how a transaction ended.

The question goes down the producer's ``Attach`` stream, and the answer comes back on it. Each call
waits by itself: a call without an answer delays no other.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zlib import crc32

from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.outbox import TransactionAsked
from ariane_broker.errors.public_errors import producer_not_attached
from ariane_broker.errors.transactions import producer_silent
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.transactions.ending import CHECK_COUNT_MAX, TransactionEnds
from ariane_broker.transactions.transaction_records import HalfMessage
from ariane_record.control_characters import shown
from ariane_record.single.message import encode_record
from ariane_servicekit.errors import field_invalid
from ariane_servicekit.security.gate.asking import may_publish

WAIT_SECONDS_DEFAULT: Final = 3.0
WAIT_SECONDS_MAX: Final = 30.0

CAUSE_LENGTH_MAX: Final = 255
"""Characters that are kept of a producer's explanation."""


class Answer(StrEnum):
    """A producer's answer about its transaction."""

    UNKNOWN = "UNKNOWN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check."""

    answer: Answer
    """The producer's answer."""
    client_id: str
    """The producer's id."""
    cause: str = ""
    """The producer's explanation when it does not know."""


class TransactionChecks:
    """Questions to producers that wait for an answer."""

    def __init__(self, log: BrokerLog, ends: TransactionEnds, clients: ClientTable) -> None:
        self._log = log
        self._ends = ends
        self._clients = clients
        self._open: dict[tuple[str, str], list[asyncio.Future[Checked]]] = {}

    async def check(self, transaction_id: str, check_count: int, wait_seconds: float) -> Checked:
        """Ask one of the group's producers, each time another one.

        Args:
            transaction_id: The transaction.
            check_count: Number of questions about it before.
            wait_seconds: How long to wait for the answer; 0 for the default.

        Raises:
            ServiceError: TRANSACTION_NOT_FOUND, TRANSACTION_DECIDED, CLIENT_NOT_ATTACHED if no
                producer of the group is attached here, DEADLINE_PASSED if the producer does not
                answer, FIELD_INVALID.
            StorageError: The half message cannot be read.
        """
        if wait_seconds > WAIT_SECONDS_MAX:
            rule = f"must be at most {WAIT_SECONDS_MAX:.0f} s"
            raise field_invalid("wait_duration", rule, f"{wait_seconds:g} s")
        if not 0 <= check_count <= CHECK_COUNT_MAX:
            raise field_invalid("check_count", f"must be 0 to {CHECK_COUNT_MAX}", check_count)
        half = await self._ends.waiting(transaction_id)
        record = encode_record(await self._log.message_at(half.commit_log_offset))
        client = self._next_producer(half, check_count)
        key = (client.client_id, transaction_id)
        answer: asyncio.Future[Checked] = asyncio.get_running_loop().create_future()
        self._open.setdefault(key, []).append(answer)
        client.outbox.put(TransactionAsked(transaction_id, record, check_count))
        wait_seconds = wait_seconds or WAIT_SECONDS_DEFAULT
        try:
            async with asyncio.timeout(wait_seconds):
                return await answer
        except TimeoutError:
            raise producer_silent(client.client_id, wait_seconds) from None
        finally:
            waiting = self._open[key]
            waiting.remove(answer)
            if not waiting:
                del self._open[key]

    def answered(
        self, client: AttachedClient, transaction_id: str, answer: Answer, cause: str
    ) -> None:
        """Take a producer's answer; answers of producers that were not asked are ignored."""
        kept = shown(cause[:CAUSE_LENGTH_MAX])[:CAUSE_LENGTH_MAX]
        checked = Checked(answer, client.client_id, kept)
        for waiting in self._open.get((client.client_id, transaction_id), ()):
            if not waiting.done():
                waiting.set_result(checked)

    def _next_producer(self, half: HalfMessage, check_count: int) -> AttachedClient:
        """Choose a producer of the group: for each further question about a message the next one.

        So a silent one is not asked twice, and messages are divided among them. Anybody may name
        the group: only a client whose user may send to the topic is asked.
        """
        producers = [
            client
            for client in self._clients.all()
            if half.producer_group in client.producer_groups
            and may_publish(client.caller, half.topic)
        ]
        if not producers:
            raise producer_not_attached(half.producer_group)
        first = crc32(half.transaction_id.encode())
        return producers[(first + check_count) % len(producers)]
