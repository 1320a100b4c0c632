"""The sinks of this broker: their homes, their progress, and their deletion."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import starmap
from typing import Final

from ariane_broker.errors.transactions import batch_undecided, peer_silent, sink_not_found
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.batch_parts import BatchParts
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.records.batch_names import check_query_id
from ariane_broker.spark_batches.records.batch_records import (
    BatchEvent,
    BatchKey,
    Stage,
    batch_record,
)
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.spark_batches.records.sink_homes import (
    CONTENTS_KEPT,
    HomeNote,
    SinkHome,
    note_json,
)
from ariane_broker.spark_batches.sink_peers import HomeElsewhere, PeerGone
from ariane_broker.topics.system_topics import BATCH_TOPIC
from ariane_record.control_characters import holds_control_character
from ariane_servicekit import Page, PageRequest, get_logger, in_turns
from ariane_servicekit.errors import field_invalid
from ariane_storage.errors import StoreFull

NOTE_AGE_MS_MAX: Final = 86_400_000
"""The age at which a note is written again when it is read, so that it does not expire."""

NAME_LENGTH_MAX: Final = 255
BROKERS_MAX: Final = 1000
BROKERS_LENGTH_MAX: Final = 16 << 10
"""Characters of the names of all brokers of a sink."""

SINKS_MAX: Final = 10_000
SINKS_OF_USER_MAX: Final = 1_000
"""Sinks that a broker knows, and those that one user has noted first: who may send to any topic may
note some, and each is kept for months."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SinkReport:
    """This broker's record of a sink."""

    query_id: str
    """Its name."""
    note: HomeNote | None
    """Its noted home; None without a note."""
    batch_id: int | None
    """The last committed batch; None: none."""
    record_count: int | None
    """Number of its records; None if unknown."""
    commit_ms: int
    """When it was committed; 0: never."""
    staged_record_count: int
    """Records that are staged and not committed."""
    staged_bytes: int
    """Their bytes."""
    stage_ms: int
    """When the last of them arrived; 0 without any."""
    publishing: bool
    """Whether a committed batch is not fully visible yet."""
    failure: str
    """Why its publication has stopped; empty if it has not."""
    prepared_id: int | None
    """The batch that waits here for the word of its home; None: none."""
    unnotified: Sequence[str]
    """Brokers with parts of batches that are committed here, and that do not know."""


@dataclass(frozen=True, slots=True)
class SinkDeleted:
    """The outcome of a deletion."""

    dropped_count: int
    """Records that were staged, and are dropped."""
    lost_count: int
    """Records that were committed, and are given up."""


@dataclass(frozen=True, slots=True, eq=False)
class Sinks:
    """Notes homes of sinks, lists sinks, and deletes them."""

    log: BrokerLog
    table: BatchTable
    publication: BatchPublication
    parts: BatchParts
    _: KW_ONLY
    broker_name: str
    """The name of this broker."""
    now_ms: Callable[[], int]

    def home_of(self, query_id: str) -> SinkHome | None:
        """The noted home of a query; None without a note.

        Raises:
            ServiceError: FIELD_INVALID.
        """
        check_query_id(query_id)
        note = self.table.homes.get(query_id)
        if note is None:
            return None
        if note.timestamp_ms < self.now_ms() - NOTE_AGE_MS_MAX:
            try:
                self._write(query_id, note.home, note.topic, note.owner)
            except StoreFull as error:
                # The old note stays valid; the next read tries again.
                _log.warning("home_not_confirmed", query_id=query_id, cause=str(error))
        return note.home

    def is_known(self, query_id: str) -> bool:
        """Whether there is something of a sink."""
        return self.table.knows(query_id)

    def note_of(self, query_id: str) -> HomeNote | None:
        """The note of a sink; None without one."""
        return self.table.homes.get(query_id)

    def adopt(self, query_id: str, user: str) -> None:
        """Have a noted sink that is nobody's belong to a user, if he may have one more."""
        note = self.table.homes[query_id]
        if self._owned_by(user) >= SINKS_OF_USER_MAX:
            return
        try:
            self._write(query_id, note.home, note.topic, user)
        except StoreFull as error:
            # Who may send to it may use it all the same; the next read tries again.
            _log.warning("sink_not_adopted", query_id=query_id, cause=str(error))

    async def note_home(
        self, query_id: str, topic: str, home: SinkHome, user: str = ""
    ) -> SinkHome:
        """Note the home of a query; return the home that counts now, with all that is known here.

        This broker becomes the home only after all other brokers of the query, but one that is
        given up, have noted it: from then on they take no word of a home before, and what they know
        to be committed is known here.

        Args:
            query_id: The query.
            topic: The topic that it writes to; empty if its rows name topics.
            home: The home.
            user: Who notes it, and owns it if nobody does; empty: it stays nobody's.

        Raises:
            ServiceError: FIELD_INVALID, PEER_UNREACHABLE.
            StorageError: It is not noted.
        """
        check_query_id(query_id)
        _check_home(home)
        if len(topic) > NAME_LENGTH_MAX or holds_control_character(topic):
            raise field_invalid("topic", "must be the name of a topic, or empty")
        if not self.table.knows(query_id):
            self._check_room(user)
        if self._becomes_home(query_id, home):
            home = await self._collected(query_id, topic, home)
        standing = self.table.homes.get(query_id)
        if (
            standing is None
            or home.rank > standing.home.rank
            or (home.term == standing.home.term and home.broker_names - standing.home.broker_names)
        ):
            if standing is not None:
                home = replace(home, broker_names=home.broker_names | standing.home.broker_names)
            owner = (standing.owner if standing else "") or user
            self._write(query_id, home, topic or (standing.topic if standing else ""), owner)
        await self.log.promised()
        return self._with_own(query_id, self.table.homes[query_id].home)

    def _check_room(self, user: str) -> None:
        """Refuse a sink more than there may be, or one more of a user.

        Raises:
            ServiceError: FIELD_INVALID.
        """
        notes = self.table.homes.values()
        rule = "must be that of a sink which there is: delete some that are not used any more, of"
        if len(notes) >= SINKS_MAX:
            raise field_invalid("query_id", f"{rule} {SINKS_MAX} of this broker")
        if user and self._owned_by(user) >= SINKS_OF_USER_MAX:
            raise field_invalid("query_id", f"{rule} {SINKS_OF_USER_MAX} of user {user}")

    def _owned_by(self, user: str) -> int:
        return sum(note.owner == user for note in self.table.homes.values())

    def _becomes_home(self, query_id: str, home: SinkHome) -> bool:
        standing = self.table.homes.get(query_id)
        return home.broker_name == self.broker_name and (
            standing is None or standing.home.term < home.term
        )

    async def _collected(self, query_id: str, topic: str, home: SinkHome) -> SinkHome:
        """A home of this broker with all that other brokers know, which have noted it now."""
        asked = {self.broker_name, home.given_up}
        standing = self.table.homes.get(query_id)
        if standing is not None:
            home = home.merged(standing.home)
        while others := home.broker_names - asked:
            for name in sorted(others):
                asked.add(name)
                try:
                    found = await self.parts.coordinator.peers.note_home(
                        name, query_id, topic, home
                    )
                except (PeerGone, HomeElsewhere) as error:
                    raise peer_silent(name, str(error)) from error
                if found.term > home.term:
                    return found
                home = home.merged(found)
        return home

    async def delete(self, query_id: str) -> SinkDeleted:
        """Forget a sink.

        Raises:
            ServiceError: FIELD_INVALID, SINK_NOT_FOUND, PEER_UNREACHABLE: a part is prepared, and
                its home may have committed it; or another broker is still to be told that a part
                of its is committed.
            StorageError: The sink is unchanged.
        """
        check_query_id(query_id)
        for batch in self.table.agreements.prepared_of(query_id):
            if not await self.parts.settle(batch, forgotten_is_settled=True):
                raise batch_undecided(*batch)
        for name in sorted(await self.parts.coordinator.notify(query_id)):
            raise peer_silent(name, "it has a part of a committed batch and does not know")
        staged = await in_turns(self._staged({query_id}))
        if not self.table.knows(query_id):
            raise sink_not_found(query_id)
        dropped_count = sum(stage.record_count for _, stage in staged)
        lost = self.publication.failed_batches(query_id)
        lost_count = sum(map(self._left_of, lost))
        record = batch_record(
            BatchEvent.FORGET,
            BatchKey(query_id, 0),
            self.now_ms(),
            lost=[batch.batch_id for batch in lost],
        )
        self.log.append_records(BATCH_TOPIC, [record])
        self.table.delete_query(query_id, [batch.batch_id for batch in lost])
        self.publication.forget(lost)
        await self.log.promised()
        return SinkDeleted(dropped_count, lost_count)

    async def page(self, query_id: str, page_size: int, page_token: str) -> Page[SinkReport]:
        """Sinks by name.

        Args:
            query_id: Only this one; empty: all.
            page_size: The most sinks.
            page_token: Token of the page; empty for the first.

        Raises:
            ServiceError: FIELD_INVALID, PAGE_TOKEN_INVALID.
        """
        wanted = PageRequest.of(
            page_size=page_size,
            page_token=page_token,
            scope=f"sinks:{query_id}",
            kinds=(str,),
        )
        page = await wanted.page_in_turns(
            (name if query_id in {"", name} else None for name in self.table.query_ids),
            lambda name: (name,),
        )
        staged: dict[str, list[Stage]] = {name: [] for name in page.entries}
        for name, stage in await in_turns(self._staged(staged)):
            staged[name].append(stage)
        reports = await in_turns(starmap(self._report, staged.items()))
        return Page(reports, page.next_page_token)

    def _staged(self, names: Container[str]) -> Iterator[tuple[str, Stage] | None]:
        """The stages of some queries; None for one of another query."""
        for batch, attempts in list(self.table.staged.items()):
            for attempt in list(attempts.values()):
                for stage in list(attempt):
                    yield (batch.query_id, stage) if batch.query_id in names else None

    def _report(self, query_id: str, stages: Sequence[Stage]) -> SinkReport:
        table = self.table
        progress = table.progress.get(query_id)
        contents = progress and progress.contents.get(progress.batch_id)
        failures = self.publication.failed_batches(query_id)
        return SinkReport(
            query_id=query_id,
            note=table.homes.get(query_id),
            batch_id=progress.batch_id if progress else None,
            record_count=contents.record_count if contents else None,
            commit_ms=progress.timestamp_ms if progress else 0,
            staged_record_count=sum(stage.record_count for stage in stages),
            staged_bytes=sum(stage.byte_count for stage in stages),
            stage_ms=max((stage.store_timestamp_ms for stage in stages), default=0),
            publishing=any(batch.query_id == query_id for batch in table.publications),
            failure=self.publication.failure_of(failures[0]) if failures else "",
            prepared_id=next((key[1] for key in table.agreements.prepared_of(query_id)), None),
            unnotified=sorted(table.agreements.unnotified_of(query_id)),
        )

    def _left_of(self, batch: BatchKey) -> int:
        """Records of a committed batch that are not visible."""
        contents = self.table.contents_of(batch)
        published = sum(self.table.publications[batch].counts.values())
        return contents.record_count - published if contents else 0

    def _with_own(self, query_id: str, home: SinkHome) -> SinkHome:
        """A home with the batches that this broker knows to be committed."""
        progress = self.table.progress.get(query_id)
        if progress is None:
            return home
        known = replace(home, committed_id=progress.batch_id, contents=progress.contents)
        return home.merged(known)

    def _write(self, query_id: str, home: SinkHome, topic: str, owner: str) -> None:
        now_ms = self.now_ms()
        note = HomeNote(home, topic, now_ms, 0, owner)
        record = batch_record(BatchEvent.HOME, BatchKey(query_id, 0), now_ms, **note_json(note))
        appended = self.log.append_records(BATCH_TOPIC, [record])
        place = int(appended.first_commit_log_offset)
        self.table.note_home(query_id, replace(note, commit_log_offset=place))


def _check_home(home: SinkHome) -> None:
    if not 1 <= len(home.broker_name) <= NAME_LENGTH_MAX:
        rule = f"must have 1 to {NAME_LENGTH_MAX} characters"
        raise field_invalid("home.broker_name", rule)
    if holds_control_character(home.broker_name):
        raise field_invalid("home.broker_name", "must hold no control character")
    if len(home.broker_names) > BROKERS_MAX:
        raise field_invalid("home.broker_names", f"must be at most {BROKERS_MAX}")
    if sum(map(len, home.broker_names)) > BROKERS_LENGTH_MAX:
        rule = f"must have at most {BROKERS_LENGTH_MAX} characters in all"
        raise field_invalid("home.broker_names", rule)
    if any(
        len(name) > NAME_LENGTH_MAX or holds_control_character(name) for name in home.broker_names
    ):
        raise field_invalid("home.broker_names", "must be names of brokers")
    if home.move_count < 0:
        raise field_invalid("home.move_count", "must be 0 or more", home.move_count)
    if home.committed_id is not None and home.committed_id < 0:
        raise field_invalid("home.committed_batch_id", "must be 0 or more", home.committed_id)
    if len(home.contents) > CONTENTS_KEPT:
        rule = f"must be at most {CONTENTS_KEPT}"
        raise field_invalid("home.committed_batches", rule, len(home.contents))
    last_id = -1 if home.committed_id is None else home.committed_id
    ids = list(home.contents)
    if ids != sorted(ids) or ids[-1:] > [last_id]:
        rule = "must ascend, up to the last batch that was committed"
        raise field_invalid("home.committed_batches", rule)
