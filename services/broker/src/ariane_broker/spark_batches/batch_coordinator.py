"""Decisions about batches of a query: prepared, written, and made known to its other brokers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final

from ariane_broker.errors.transactions import (
    is_transaction_decided,
    peer_silent,
    sink_moved,
    sink_not_found,
)
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.spark_batches.records.batch_progress import Progress
from ariane_broker.spark_batches.records.batch_records import (
    BatchEvent,
    BatchKey,
    Contents,
    NamedAttempt,
    batch_record,
    contents_rows,
)
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.spark_batches.records.sink_homes import HomeNote, SinkHome, note_json
from ariane_broker.spark_batches.sink_peers import Fate, HomeElsewhere, PeerGone, SinkPeers
from ariane_broker.topics.system_topics import BATCH_TOPIC
from ariane_servicekit import ServiceError, ServicekitError, get_logger
from ariane_storage.writing.append import Appended

_log = get_logger(__name__)

_ALONE: Final = (
    "no other broker knows of the decision yet; this one goes on alone once name servers drop all"
    " others, silence_s_max (120 s) after they died"
)


@dataclass(frozen=True, slots=True, eq=False)
class BatchCoordinator:
    """Coordinates the brokers of a query, of which this one is the home.

    A home that was given up and comes back asks the present one about decisions of which it
    notified nobody: the batch may have been decided again.
    """

    log: BrokerLog
    table: BatchTable
    peers: SinkPeers
    _: KW_ONLY
    broker_name: str
    now_ms: Callable[[], int]
    undecided: dict[BatchKey, int] = field(default_factory=dict)
    """The decisions that are being prepared just now; they end with this process."""

    async def prepare(
        self, batch: BatchKey, attempts: Sequence[NamedAttempt], decision_id: int
    ) -> list[str] | None:
        """Have the other brokers keep their parts for a decision.

        Until it is written, ``undecided`` has the batch.

        Returns:
            The brokers with parts; None if the query has no other brokers.

        Raises:
            ServiceError: SINK_MOVED, PEER_UNREACHABLE; TRANSACTION_DECIDED: another broker knows
                it to be committed; or what a broker with a part answered.
        """
        self.undecided[batch] = decision_id
        parts: dict[str, list[NamedAttempt]] = defaultdict(list)
        for attempt in attempts:
            if attempt.broker_name not in {"", self.broker_name}:
                parts[attempt.broker_name].append(attempt)
        names = sorted({*parts, *self._others(batch.query_id)})
        home = self._home(batch.query_id)
        try:
            answers = await asyncio.gather(
                *(
                    self.peers.prepare(name, batch, home, decision_id, parts.get(name, ()))
                    for name in names
                ),
                return_exceptions=True,
            )
            for name, answer in zip(names, answers, strict=True):
                self._check_prepared(batch.query_id, name, answer, has_part=name in parts)
        except BaseException:
            self.undecided.pop(batch, None)
            raise
        return sorted(parts) if names else None

    def commit(
        self,
        batch: BatchKey,
        contents: Contents,
        stages: Sequence[int],
        others: Sequence[str] | None = None,
    ) -> Appended:
        """Write the record that decides about a batch.

        Args:
            batch: The batch.
            contents: Its contents.
            stages: Commit-log offsets of the stages here, in the order of publication.
            others: Other brokers with parts of it, which are to be notified; None if nobody is.

        Raises:
            StorageError: It is not decided.
        """
        now_ms = self.now_ms()
        says: dict[str, object] = {} if others is None else {"others": others}
        rows = contents_rows({batch.batch_id: contents})
        record = batch_record(
            BatchEvent.COMMIT, batch, now_ms, contents=rows, stages=stages, **says
        )
        appended = self.log.append_records(BATCH_TOPIC, [record])
        place = int(appended.first_commit_log_offset)
        progress = Progress(batch.batch_id, place, now_ms, {batch.batch_id: contents})
        self.table.commit(batch, stages, progress, others)
        return appended

    async def notify(self, query_id: str) -> set[str]:
        """Notify the other brokers of a query of decisions that they do not know.

        Returns:
            The brokers that name servers know, and that could not be notified.

        Raises:
            ServiceError: PEER_UNREACHABLE: nobody else knows of a decision yet.
            StorageError: It is not noted who knows.
        """
        late, gone = set[str](), set[str]()
        for batch in self.table.agreements.owed_of(query_id):
            owed = self.table.agreements.owed.get(batch)
            if owed is None:
                continue
            if not self._is_home(query_id):
                await self._ask_next_home(batch)
                continue
            names = (
                set(owed.unnotified) if owed.witnessed else owed.unnotified | self._others(query_id)
            )
            # A broker learns of batches in their order.
            answers = await self._publish(batch, owed.contents, names - late)
            late |= {name for name, answer in answers.items() if answer is not None}
            gone |= {name for name, answer in answers.items() if isinstance(answer, PeerGone)}
            knowing = sorted(name for name, answer in answers.items() if answer is None)
            for answer in answers.values():
                if isinstance(answer, HomeElsewhere):
                    self.take_home(query_id, answer.home)
            # With all others gone there is nobody whom a word of this one could reach.
            if knowing or (not owed.witnessed and names <= gone):
                self._append(BatchEvent.NOTIFIED, batch, brokers=knowing)
                self.table.notified(batch, knowing)
            elif not owed.witnessed:
                raise peer_silent(min(names), _ALONE)
        return (late & self.table.agreements.unnotified_of(query_id)) - gone

    async def until_visible(
        self, batch: BatchKey, contents: Contents, names: Iterable[str]
    ) -> None:
        """Wait until the parts of other brokers are visible, of those that answer.

        Raises:
            ServiceError: RECORD_CORRUPTED: a part cannot become visible.
        """
        answers = await self._publish(batch, contents, set(names), until_visible=True)
        for name, answer in answers.items():
            if isinstance(answer, ServiceError) and not answer.row.retriable:
                raise answer
            if answer is not None:
                _log.warning(
                    "part_not_visible_yet",
                    query_id=batch.query_id,
                    batch_id=batch.batch_id,
                    broker=name,
                    cause=str(answer),
                )

    async def fate_of(self, batch: BatchKey, decision_id: int) -> Fate:
        """What became of a preparation of this home.

        Raises:
            ServiceError: SINK_MOVED, SINK_NOT_FOUND.
        """
        fate = self._fate_of(batch, decision_id)
        # A decision that this broker may still lose is no decision yet.
        await self.log.promised()
        return fate

    def _fate_of(self, batch: BatchKey, decision_id: int) -> Fate:
        note = self.table.homes.get(batch.query_id)
        if note is None:
            raise sink_not_found(batch.query_id)
        if note.home.broker_name != self.broker_name:
            raise sink_moved(batch.query_id, note.home.broker_name, note.home.move_count)
        if self.undecided.get(batch) == decision_id:
            return Fate(decided=False)
        owed = self.table.agreements.owed.get(batch)
        contents = self.table.contents_of(batch) if owed is None else owed.contents
        if contents is None:
            # A batch that is older than what is remembered may have been this one.
            return Fate(decided=not self.table.is_committed(batch))
        return Fate(
            decided=True, contents=contents if contents.decision_id == decision_id else None
        )

    def take_home(self, query_id: str, home: SinkHome) -> None:
        """Note that another broker is the home now.

        Raises:
            StorageError: It is not noted.
        """
        note = self.table.homes.get(query_id)
        if note is not None and home.term <= note.home.term:
            return
        before = SinkHome(home.broker_name, home.move_count) if note is None else note.home
        found = replace(
            before,
            broker_name=home.broker_name,
            move_count=home.move_count,
            broker_names=before.broker_names | home.broker_names,
            given_up=home.given_up,
        )
        now_ms = self.now_ms()
        taken = HomeNote(found, note.topic if note else "", now_ms, 0, note.owner if note else "")
        place = self._append(BatchEvent.HOME, BatchKey(query_id, 0), **note_json(taken))
        self.table.note_home(query_id, replace(taken, commit_log_offset=place))

    def _check_prepared(
        self, query_id: str, name: str, answer: BaseException | None, *, has_part: bool
    ) -> None:
        """Raise what keeps a batch from being decided."""
        if isinstance(answer, HomeElsewhere):
            home = answer.home
            self.take_home(query_id, home)
            raise sink_moved(query_id, home.broker_name, home.move_count)
        if isinstance(answer, PeerGone) and has_part:
            raise peer_silent(name, str(answer))
        if answer is None:
            return
        # A broker without a part may be away, but not know the batch.
        if has_part or is_transaction_decided(answer) or not isinstance(answer, ServicekitError):
            raise answer

    async def _ask_next_home(self, batch: BatchKey) -> None:
        """End a decision of this broker, which is the home no more, as the next home knows it."""
        owed, note = self.table.agreements.owed[batch], self.table.homes[batch.query_id]
        fate = Fate(decided=True, contents=owed.contents)
        if not owed.witnessed:
            try:
                fate = await self.peers.fate_of(
                    note.home.broker_name, batch, owed.contents.decision_id
                )
            except (PeerGone, HomeElsewhere) as error:
                raise peer_silent(note.home.broker_name, str(error)) from error
        if not fate.decided:
            raise peer_silent(note.home.broker_name, "it does not know what became of a batch")
        if batch not in self.table.agreements.owed:
            return
        if fate.contents is None:
            _log.warning("decision_undone", query_id=batch.query_id, batch_id=batch.batch_id)
            self._append(BatchEvent.UNDO, batch)
            self.table.undo(batch)
            return
        # The others ask the next home.
        unnotified = sorted(owed.unnotified)
        self._append(BatchEvent.NOTIFIED, batch, brokers=unnotified)
        self.table.notified(batch, unnotified)

    async def _publish(
        self, batch: BatchKey, contents: Contents, names: set[str], *, until_visible: bool = False
    ) -> dict[str, ServicekitError | None]:
        """Notify brokers of a decision; the error of each, None where it knows now."""
        home, order = self._home(batch.query_id), sorted(names)
        answers = await asyncio.gather(
            *(
                self.peers.publish(name, batch, home, contents, until_visible=until_visible)
                for name in order
            ),
            return_exceptions=True,
        )
        found: dict[str, ServicekitError | None] = {}
        for name, answer in zip(order, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, ServicekitError):
                raise answer
            found[name] = answer
        return found

    def _is_home(self, query_id: str) -> bool:
        note = self.table.homes.get(query_id)
        return note is None or note.home.broker_name == self.broker_name

    def _home(self, query_id: str) -> SinkHome:
        """The home as others know it: without its batches."""
        note = self.table.homes.get(query_id)
        if note is None:
            return SinkHome(self.broker_name, 0)
        return replace(note.home, committed_id=None, contents={})

    def _others(self, query_id: str) -> set[str]:
        """The other brokers of a query."""
        note = self.table.homes.get(query_id)
        return set() if note is None else set(note.home.broker_names - {self.broker_name})

    def _append(self, event: BatchEvent, batch: BatchKey, **says: object) -> int:
        record = batch_record(event, batch, self.now_ms(), **says)
        appended = self.log.append_records(BATCH_TOPIC, [record])
        return int(appended.first_commit_log_offset)
