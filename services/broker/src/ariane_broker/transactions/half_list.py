"""Lists half messages without an outcome, as far as they may be handed out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ariane_broker.log.broker_log import SYSTEM_QUEUE_ID
from ariane_broker.transactions.transaction_records import HalfMessage
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record.names import HALF_TOPIC, OP_TOPIC
from ariane_servicekit import Page, PageRequest
from ariane_servicekit.errors import field_invalid
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class HalfPage:
    """Some half messages, and how far the list goes."""

    page: Page[HalfMessage]
    """The half messages, by queue offset."""
    half_queue_offset_end: int
    """Readable end of the half topic."""
    op_queue_offset_end: int
    """Readable end of the op topic."""
    now_ms: int
    """The time of the list."""


@dataclass(frozen=True, slots=True, eq=False)
class HalfList:
    """Lists half messages."""

    store: Store
    table: TransactionTable
    now_ms: Callable[[], int]

    @property
    def pending_count(self) -> int:
        """How many half messages have no outcome."""
        return self.table.pending_count

    async def page(self, begin_queue_offset: int, page_size: int, page_token: str) -> HalfPage:
        """List half messages from a queue offset of the half topic on.

        Lists only what may be handed out: a record that may still vanish is not listed.

        Raises:
            ServiceError: FIELD_INVALID, PAGE_TOKEN_INVALID.
        """
        if begin_queue_offset < 0:
            raise field_invalid("begin_queue_offset", "must be 0 or more", begin_queue_offset)
        _, half_end = self.store.queue_bounds(HALF_TOPIC, SYSTEM_QUEUE_ID)
        _, op_end = self.store.queue_bounds(OP_TOPIC, SYSTEM_QUEUE_ID)
        wanted = PageRequest.of(
            page_size=page_size,
            page_token=page_token,
            scope=f"half-messages:{begin_queue_offset}",
            kinds=(int,),
        )
        now_ms = self.now_ms()
        page = await wanted.page_in_turns(
            (
                half if begin_queue_offset <= half.queue_offset < half_end else None
                for half in self.table.pending()
            ),
            lambda half: (half.queue_offset,),
        )
        return HalfPage(page, half_end, op_end, now_ms)
