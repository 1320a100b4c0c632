"""Follows one broker: makes the database agree with the broker's list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ariane_servicekit import Clock, get_logger
from ariane_servicekit.database import Database
from ariane_txn_checker.database import LeaseStore, Stretch, SurveyStore
from ariane_txn_checker.database.surveys import PURGE_COUNT
from ariane_txn_checker.database.tables import NAME_LENGTH_MAX
from ariane_txn_checker.transaction import HalfMessage, HalfMessagePage, Lease
from ariane_txn_checker.watching.brokers import Broker, Brokers

PAGE_SIZE: Final = 1000

PURGE_INTERVAL_S: Final = 600.0
"""Seconds between two deletions of old decided transactions."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SurveyTimes:
    """Times in milliseconds."""

    first_check_ms: int
    """How long a half message rests before its first check, unless it has its own time."""

    note_age_ms: int
    """Age at which a half message gets a row: most are settled before and never get one."""

    keep_decided_ms: int
    """How long decided transactions are kept."""


class Survey:
    """Follows the half and op topics of one broker, for as long as a lease lasts.

    Each answer of the broker has the ends of both topics: while neither end moves, nothing was
    stored or decided, and one small call is the whole turn.
    """

    def __init__(
        self,
        brokers: Brokers,
        lease: Lease,
        database: Database,
        times: SurveyTimes,
        clock: Clock,
        *,
        show_new: Callable[[], None],
    ) -> None:
        """``show_new`` is called when transactions may have become due."""
        self._brokers = brokers
        self._lease = lease
        self._database = database
        self._surveys = SurveyStore(database)
        self._leases = LeaseStore(database)
        self._times = times
        self._clock = clock
        self._show_new = show_new
        self._ends: tuple[int, int] | None = None
        self._left_out = False
        self._misfits: set[int] = set()
        self._purge_s = clock.monotonic()

    async def turn(self) -> None:
        """Bring the database up to date with the broker.

        Raises:
            BrokerRefusal: The broker did not answer; rows written so far stay.
            LeaseLost: Another checker has taken the broker over.
        """
        await self._purge()
        broker = self._brokers.broker(self._lease.broker)
        if self._ends is not None and not self._left_out:
            probe = await broker.list_half_messages(page_size=1, begin_queue_offset=self._ends[0])
            if _ends(probe) == self._ends:
                return
        await self._take_all_in(broker)
        self._show_new()

    async def _purge(self) -> None:
        if self._clock.monotonic() < self._purge_s:
            return
        count = await self._database.call(
            self._surveys.purge, self._lease, keep_ms=self._times.keep_decided_ms
        )
        if count < PURGE_COUNT:
            self._purge_s = self._clock.monotonic() + PURGE_INTERVAL_S

    async def _take_all_in(self, broker: Broker) -> None:
        ends: tuple[int, int] | None = None
        left_out = False
        begin, page_token = 0, ""
        while True:
            began_ms = await self._database.call(self._surveys.now_ms)
            page = await broker.list_half_messages(page_size=PAGE_SIZE, page_token=page_token)
            # Changes during the paging are seen in the next turn.
            ends = ends or _ends(page)
            listed = page.half_messages
            page_token = page.next_page_token
            end = listed[-1].half_queue_offset + 1 if page_token else page.half_queue_offset_end
            noted = {
                each.transaction_id: (each, self._wait_ms(each, page.answer_ms))
                for each in listed
                if not self._is_young(each, page.answer_ms) and self._fits(each)
            }
            left_out = left_out or any(self._is_young(each, page.answer_ms) for each in listed)
            stretch = Stretch(noted, range(begin, max(begin, end)), began_ms)
            await self._database.call(self._surveys.take_in, self._lease, stretch)
            begin = stretch.offsets.stop
            if not page_token:
                break
        await self._database.call(
            self._leases.note_progress,
            self._lease,
            half_queue_offset=ends[0],
            op_queue_offset=ends[1],
        )
        self._ends, self._left_out = ends, left_out

    def _fits(self, half_message: HalfMessage) -> bool:
        """Whether a row can hold it. A half message that does not fit must not block the others."""
        names = (
            half_message.transaction_id,
            half_message.unique_id,
            half_message.topic,
            half_message.producer_group,
        )
        fits = all(len(name) <= NAME_LENGTH_MAX and "\0" not in name for name in names)
        if not fits and half_message.half_queue_offset not in self._misfits:
            self._misfits.add(half_message.half_queue_offset)
            _log.warning(
                "half_message_cannot_be_kept",
                broker=str(self._lease.broker),
                half_queue_offset=half_message.half_queue_offset,
            )
        return fits

    def _rest_ms(self, half_message: HalfMessage) -> int:
        own_ms = half_message.immunity_ms
        return self._times.first_check_ms if own_ms is None else own_ms

    def _is_young(self, half_message: HalfMessage, answer_ms: int) -> bool:
        age_ms = answer_ms - half_message.store_ms
        # A negative age means that the broker's clock was set back: do not wait for it.
        return 0 <= age_ms < min(self._times.note_age_ms, self._rest_ms(half_message))

    def _wait_ms(self, half_message: HalfMessage, answer_ms: int) -> int:
        rest_ms = self._rest_ms(half_message)
        return min(rest_ms, max(0, half_message.store_ms + rest_ms - answer_ms))


def _ends(page: HalfMessagePage) -> tuple[int, int]:
    return page.half_queue_offset_end, page.op_queue_offset_end
