"""Topics, groups and consumer offsets on the disk: loading them at start, saving them.

A lost file is never read as empty. Missing consumer offsets stop the start, unless the operator
accepts the loss. Lost topics that have messages are restored from their queues. If a previous
generation had to be used, it is reported, and completed in the same way.

Consumer offsets beyond the end of their queue refer to lost messages, as after a power loss under
RocketMQ, or when a damaged tail was cut. They are set back to the end of the queue: otherwise the
next messages, which get the same queue offsets, would be skipped. Offsets below 0, which only a
damaged or edited file has, become 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from ariane_broker.clients.deaths.suspicions import Suspicions
from ariane_broker.durable.saved_state import StateFile
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.log import log_epochs
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_table import TopicConfig, TopicTable, topics_of
from ariane_record.counted import counted
from ariane_servicekit import StartRefused, at_once, get_logger
from ariane_storage.errors import StateFileDamaged

CHANGES_SHOWN_MAX: Final = 8
"""The number of consumer offsets that are reported one by one when they are set back."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The state files of a broker."""

    topics: StateFile
    """``config/topics.json``."""
    offsets: StateFile
    """``config/consumerOffset.json``."""
    groups: StateFile
    """``config/subscriptionGroup.json``."""
    locks: StateFile
    """``config/queueLocks.json``."""
    deaths: StateFile
    """``config/consumerDeaths.json``."""
    epochs: StateFile
    """``config/logEpochs.json``."""


class StateTables(NamedTuple):
    """What the state files are of, in memory."""

    topics: TopicTable
    """The topics."""
    offsets: ConsumerOffsets
    """The offsets of groups."""
    groups: ConsumerGroups
    """The settings of groups."""
    locks: QueueLocks
    """Owners of queues that are consumed in order."""
    suspicions: Suspicions
    """Messages that may kill their consumers."""
    epochs: LogEpochs
    """The epochs of the log."""


class BrokerState:
    """Loads the state of a broker, and makes sure that all its files exist afterwards."""

    def __init__(
        self,
        files: StateFiles,
        tables: StateTables,
        *,
        statistics: BrokerStatistics,
        end_of_queue: Callable[[QueueKey], int],
        executor: Executor,
        accept_offset_loss: bool,
    ) -> None:
        """``tables`` are filled from ``files``.

        ``end_of_queue`` returns the next queue offset of a queue of the recovered store.
        ``accept_offset_loss``: whether to start although consumer offsets are lost.
        """
        self._files = files
        self._topics, self._offsets, self._groups = tables.topics, tables.offsets, tables.groups
        self._locks, self._suspicions, self._epochs = tables.locks, tables.suspicions, tables.epochs
        self._statistics = statistics
        self._end_of_queue = end_of_queue
        self._executor = executor
        self._accept_offset_loss = accept_offset_loss
        self._epoch_has_begun = False
        self.findings: list[str] = []
        """The faults of the state, in sentences for people."""

    async def load(
        self, queues: Iterable[tuple[str, int]], required_topics: Iterable[TopicConfig]
    ) -> None:
        """Load everything.

        Args:
            queues: Topic and queue id of all queues of the store.
            required_topics: Topics that must exist; missing ones are created.

        Raises:
            StartRefused: A file is damaged or lost.
        """
        known_queues = list(queues)
        topics = await self._load(self._files.topics, self._topics.load)
        offsets = await self._load_offsets(store_is_new=topics is None and not known_queues)
        groups = await self._load(self._files.groups, self._groups.load)
        await self._load_locks()
        await self._load_suspicions()
        await self._begin_epoch()
        self._note_used_backups()
        missing = await self._topics_of(known_queues, lost=topics is None)
        missing += [topic for topic in required_topics if self._topics.find(topic.topic) is None]
        if missing or topics is None or self._files.topics.used_backup:
            await self._save(self._files.topics, self._topics.document_with(*missing))
            self._topics.put(*missing)
        if offsets is None or self._files.offsets.used_backup:
            await self._save(self._files.offsets, self._offsets.document())
        if topics is not None and not self._files.topics.used_backup:
            await self._forget_offsets_without_topic()
        if groups is None and not (topics is None and not known_queues):
            self._found("the settings of consumer groups were lost; defaults are used")
        if groups is None or self._files.groups.used_backup:
            await self._save(self._files.groups, self._groups.document_with())

    async def _forget_offsets_without_topic(self) -> None:
        """Drop offsets of topics whose deletion was cut short: a new topic must not get them."""
        gone = sorted(topic for topic in self._offsets.topics() if not self.has_topic(topic))
        if gone:
            at_once(self._offsets.remove_topics(set(gone)))
            self._found(f"offsets of topics that do not stand were forgotten: {', '.join(gone)}")
            await self._save(self._files.offsets, self._offsets.document())

    async def set_back_offsets(self) -> None:
        """Set consumer offsets outside of their queue to its nearest end, durably.

        To be called after the replay of the log, which may raise offsets of receiving groups.
        """
        changes = self._offsets.set_back(self._end_of_queue)
        if changes:
            losses = "; ".join(
                f"group {place.consumer_group}, topic {place.queue.topic}, queue "
                f"{place.queue.queue_id}: {place.consumer_offset} to {kept}"
                for place, kept in changes[:CHANGES_SHOWN_MAX]
            )
            more = len(changes) - CHANGES_SHOWN_MAX
            self._found(
                f"{counted(len(changes), 'consumer offset')} lay outside of their queues: beyond "
                "the end, whose last messages were lost, or below 0; they were set to the end or "
                "to 0, so that no message is skipped: "
                + losses
                + (f"; and {more} more" if more > 0 else "")
            )
            self._statistics.set_back_offset_count += len(changes)
            await self._save(self._files.offsets, self._offsets.document())
        if self._suspicions.set_back(self._end_of_queue):
            await self._save(self._files.deaths, self._suspicions.document())

    def has_topic(self, topic: str) -> bool:
        """Whether a topic exists."""
        return self._topics.find(topic) is not None

    async def _load_offsets(self, *, store_is_new: bool) -> Mapping[str, Any] | None:
        """The consumer offsets.

        Raises:
            StartRefused: They are lost, and the operator has not accepted the loss.
        """
        try:
            document = await self._load(self._files.offsets, self._offsets.load)
        except StartRefused as error:
            if not self._accept_offset_loss:
                raise StartRefused(
                    f"{error}; or accept the loss with --accept-offset-loss"
                ) from None
            self._found(f"consumer offsets were damaged and given up: {error}")
            return None
        if document is None and not store_is_new:
            if not self._accept_offset_loss:
                raise StartRefused(
                    "config/consumerOffset.json and its previous generation are missing although "
                    "the store is not new: restore one of them, or start once with "
                    "--accept-offset-loss and let every group begin where its start position says"
                )
            self._found("consumer offsets were lost and given up")
        return document

    async def _load_locks(self) -> None:
        """The queue locks. Their loss costs time but no message, so it does not stop the start.

        A previous generation is not used: it may lack the largest epoch.
        """
        file = self._files.locks
        loop = asyncio.get_running_loop()
        try:
            document = await loop.run_in_executor(self._executor, file.load)
            if document is not None and not file.used_backup:
                self._locks.load(document)
            lost = document is not None and file.used_backup
        except (StateFileDamaged, KeyError, TypeError, ValueError, AttributeError):
            lost = True
        if lost:
            self._found(
                "config/queueLocks.json was damaged; members that consume in order lock anew"
            )
            await self._save(file, self._locks.document())

    async def _load_suspicions(self) -> None:
        """Load the messages that crashed consumers; without them the start continues."""
        file = self._files.deaths
        loop = asyncio.get_running_loop()
        try:
            document = await loop.run_in_executor(self._executor, file.load)
            if document is not None:
                self._suspicions.load(document)
        except (StateFileDamaged, KeyError, TypeError, ValueError, AttributeError):
            self._found(
                "config/consumerDeaths.json was damaged; messages that consumers died of are "
                "looked for anew"
            )
            await self._save(file, self._suspicions.document())

    async def end_epoch(self) -> None:
        """Note the end of the log durably: later records are written by another program.

        A start that could not begin its epoch has written no records, and ends none.

        Raises:
            OSError: The end is not noted.
        """
        if self._epoch_has_begun:
            self._epochs.begin()
            await self._save(self._files.epochs, self._epochs.document())

    async def _begin_epoch(self) -> None:
        """Begin an epoch of the log; it is durable before any client learns of it.

        A previous generation is not used: it lacks the last epoch.
        """
        file = self._files.epochs
        loop = asyncio.get_running_loop()
        try:
            document = await loop.run_in_executor(self._executor, file.load)
            if document is not None and not file.used_backup:
                self._epochs.load(document)
            lost = document is not None and file.used_backup
        except (StateFileDamaged, KeyError, TypeError, ValueError, AttributeError):
            lost = True
        if lost:
            self._found(
                f"config/{log_epochs.FILE_NAME} was damaged; consumers that were connected before "
                "go on from their stored offsets"
            )
        self._epochs.begin()
        await self._save(file, self._epochs.document())
        self._epoch_has_begun = True

    async def _load(
        self, file: StateFile, take_over: Callable[[Mapping[str, Any]], None]
    ) -> Mapping[str, Any] | None:
        loop = asyncio.get_running_loop()
        try:
            document = await loop.run_in_executor(self._executor, file.load)
            if document is not None:
                take_over(document)
        except StateFileDamaged as error:
            raise StartRefused(str(error)) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StartRefused(
                f"{getattr(file, 'path', 'a state file')} has another shape than this broker "
                f"writes ({error}): restore it from a copy"
            ) from error
        return document

    async def _save(self, file: StateFile, document: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        # After a damaged generation, save twice: the first save keeps it as the previous one.
        for _ in range(2 if file.used_backup else 1):
            await loop.run_in_executor(self._executor, file.save, document)

    def _note_used_backups(self) -> None:
        """Report the damaged files, and the effects of using their previous generations."""
        consequences = {
            "topics": (self._files.topics, "the last change of a topic may be lost"),
            "consumerOffset": (self._files.offsets, "messages may be consumed again"),
            "subscriptionGroup": (self._files.groups, "the last change of a group may be lost"),
        }
        for name, (file, consequence) in consequences.items():
            if file.used_backup:
                self._found(
                    f"config/{name}.json was damaged or missing; its previous generation is used: "
                    f"{consequence}"
                )

    async def _topics_of(
        self, queues: Iterable[tuple[str, int]], *, lost: bool
    ) -> list[TopicConfig]:
        """Topics with queues in the store that the table lacks, or has with too few queues.

        Deleting a topic removes its queues, so a topic with queues was not deleted. A number of
        queues below that of the store is accepted, since operators may lower it, except from a
        previous generation. If the process ended while it deleted a topic, the previous generation
        has the settings.
        """
        previous = await self._previous_topics()
        counts: dict[str, int] = {}
        for topic, queue_id in queues:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        unknown: list[TopicConfig] = []
        grown: list[TopicConfig] = []
        for topic, count in counts.items():
            config = self._topics.find(topic)
            if config is None:
                found = TopicConfig(topic=topic, read_queue_count=count, write_queue_count=count)
                known = previous.get(topic, found)
                counted = max(known.read_queue_count, count)
                unknown.append(replace(known, read_queue_count=counted))
            elif self._files.topics.used_backup and config.read_queue_count < count:
                grown.append(replace(config, read_queue_count=count))
        if names := _user_topics(unknown):
            reason = "was lost" if lost else "lacked topics"
            self._found(f"config/topics.json {reason}; topics were found by their queues: {names}")
        if names := _user_topics(grown):
            self._found(f"queues that config/topics.json lacked can be read again: {names}")
        return unknown + grown

    async def _previous_topics(self) -> Mapping[str, TopicConfig]:
        """The topics of the previous generation; none without a valid one."""
        loop = asyncio.get_running_loop()
        try:
            document = await loop.run_in_executor(self._executor, self._files.topics.previous)
            return {} if document is None else topics_of(document)
        except (KeyError, TypeError, ValueError, AttributeError):
            return {}

    def _found(self, finding: str) -> None:
        _log.warning("state_finding", finding=finding)
        self.findings.append(finding)


def _user_topics(topics: Iterable[TopicConfig]) -> str:
    return ", ".join(sorted(topic.topic for topic in topics if not topic.system))
