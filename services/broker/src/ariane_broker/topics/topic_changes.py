"""Creating, changing and deleting topics: durable first, then visible, then announced.

Changes run one after the other, so that the file always holds the visible state or the next one.
Only queues that are to be read no more are closed before that is durable: nothing may come to them.
Creations that wait are done together, and so are deletions: the files are written once for all of
them.

A deletion has four steps; if the process ends in between, the topic is whole or gone::

    0. the number of the epoch that    the topic stands
       it begins is durable, also on
       replicas
    1. topics.json without it          still whole: the start finds its queues, and its settings in
                                       the generation before
    2. the store notes where its       gone: the start removes files of queues that are left, and
       records end                     what groups and producers had in it
    3. what groups and producers had   in memory, in turns of the loop; on the disk with the next
       in it is forgotten              saves; both before a topic of the same name is made
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ariane_broker.durable.whole_changes import make_whole
from ariane_broker.errors.public_errors import (
    queue_not_found,
    topic_exists,
    topic_name_illegal,
    topic_not_found,
    topic_reserved,
)
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.batched_work import BatchedWork, Waiting
from ariane_broker.topics.topic_limits import TopicLimits, added_queue_count
from ariane_broker.topics.topic_table import TopicChange, TopicConfig, TopicTable
from ariane_broker.topics.unread_queues import UnreadQueues
from ariane_record import IllegalName, check_topic_name, is_system_topic
from ariane_servicekit import at_once, in_turns
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.gate.asking import require_create_topic

_FORGOTTEN_MAX: Final = 1000


class _Creation(NamedTuple):
    """A topic to be created."""

    topic: str
    """Its legal name."""
    change: TopicChange
    """Its settings."""
    may_stand: bool
    """Whether an existing topic is enough, independent of its settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEffects:
    """What a change of topics does beside the table."""

    save: Callable[[dict[str, Any]], Awaitable[None]]
    """Writes the file of topics; returns once it is durable."""
    announce: Callable[[], Awaitable[None]]
    """Informs name servers and replicas at once; waits for name servers only for a moment."""
    copied: Callable[[], Awaitable[None]]
    """Waits until replicas have all changes."""
    reserve_epoch: Callable[[], Awaitable[None]]
    """Returns once the epoch that the next ``forget`` begins is durable, also on replicas."""
    delete_queues: Callable[[Collection[str]], Awaitable[None]]
    """Deletes all queues of topics durably, or none; they are gone for readers before it first
    waits."""
    forget: Callable[[Collection[str]], Awaitable[None]]
    """Forgets the offsets and sequences that groups and producers had in topics. It begins an epoch
    before it first waits, and may take several turns of the loop: nobody can make a topic of the
    same name meanwhile."""
    save_forgotten: Callable[[], Awaitable[None]]
    """Returns once it is durable that this was forgotten."""
    save_offsets: Callable[[], Awaitable[None]]
    """Returns once it is durable what groups have consumed."""
    wake_queue: Callable[[QueueKey], None]
    """Wakes pulls that wait for a queue."""


class TopicChanges:
    """All changes to the set of topics while the broker serves."""

    def __init__(
        self,
        table: TopicTable,
        limits: TopicLimits,
        unread: UnreadQueues,
        effects: TopicEffects,
        *,
        auto_create_queue_count: int,
    ) -> None:
        """``auto_create_queue_count``: queues of a topic that a send makes; 0 if sends may not."""
        self.find = table.find
        """As ``TopicTable.find``."""
        self._table = table
        self._limits = limits
        self._unread = unread
        self._effects = effects
        self._lock = asyncio.Lock()
        self._creations = BatchedWork(self._lock, self._create_all)
        self._deletions = BatchedWork(self._lock, self._delete_all)
        # Deleted lately: files may still have offsets and sequences in them.
        self._forgotten: set[str] = set()
        self._auto_create_queue_count = auto_create_queue_count

    async def create(self, topic: str, change: TopicChange) -> TopicConfig:
        """Create a topic; it is in the routes of all reachable name servers on return.

        Raises:
            ServiceError: TOPIC_EXISTS, TOPIC_NAME_ILLEGAL, TOPIC_RESERVED, FIELD_INVALID,
                QUEUES_UNREAD or TOPIC_LIMIT_REACHED.
        """
        check_user_topic(topic)
        try:
            config = await self._creations.do(_Creation(topic, change, may_stand=False))
        except ServiceError:
            await self._effects.copied()  # A repeated call must not succeed too early.
            raise
        await self._effects.announce()
        return config

    async def create_for_send(
        self, topic: str, queue_id: int = 0, check: Callable[[], object] = bool
    ) -> TopicConfig:
        """Return the topic; create it if it is missing, sends may, and it could take what is sent.

        Args:
            topic: Its name.
            queue_id: The queue that is sent to.
            check: Raises for what could not be stored: it creates no topic.

        Raises:
            ServiceError: TOPIC_NOT_FOUND if sends may not, TOPIC_NAME_ILLEGAL, TOPIC_RESERVED,
                QUEUE_NOT_FOUND, ACCESS_DENIED or TOPIC_LIMIT_REACHED.
        """
        config = self._table.find(topic)
        if config is not None:
            return config
        check_user_topic(topic)
        queue_count = self._auto_create_queue_count
        if not queue_count:
            raise topic_not_found(topic)
        if queue_id >= queue_count:
            raise queue_not_found(topic, queue_id, queue_count)
        check()
        require_create_topic(topic)
        return await self._create_if_missing(topic, queue_count)

    async def create_for_group(self, topic: str) -> TopicConfig:
        """Return the retry topic or the dead letters of an existing group; created if missing.

        Raises:
            ServiceError: TOPIC_LIMIT_REACHED.
        """
        return self._table.find(topic) or await self._create_if_missing(topic, 1)

    async def update(self, topic: str, change: TopicChange) -> TopicConfig:
        """Change a topic.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_RESERVED, FIELD_INVALID, QUEUES_UNREAD or
                TOPIC_LIMIT_REACHED.
        """
        config = await make_whole(self._lock, lambda: self._update(topic, change))
        await self._effects.announce()
        return config

    async def _update(self, topic: str, change: TopicChange) -> TopicConfig:
        refuse_system_topic(topic)
        before = self._table.get(topic)
        config = self._table.updated(topic, change)
        added_count = added_queue_count(before, config)
        if added_count:
            (left,) = await in_turns(self._limits.left_beside(self._table.all()))
            left.take_queues(added_count)
        if not change.allow_unread_queues:
            await self._refuse_unread(before, config)
        if config.read_queue_count < before.read_queue_count:
            await self._close_queues(before, config)
        else:
            await self._put(config)
        await self._wake_readers(before)
        return config

    async def _refuse_unread(self, before: TopicConfig, config: TopicConfig) -> None:
        """Refuse a change that hides messages, also those that come while it is examined.

        Raises:
            ServiceError: QUEUES_UNREAD.
        """
        while True:
            ends = self._unread.ends(before, config)
            await in_turns(self._unread.check(before, config))
            if self._unread.ends(before, config) == ends:
                return

    async def _close_queues(self, before: TopicConfig, config: TopicConfig) -> None:
        """Let fewer queues be read: visible first, because what came to them would be hidden.

        Nobody reads them later, and could store again that they were consumed.
        """
        self._table.put(config)
        try:
            await self._effects.save_offsets()
            await self._save_with(config)
        except BaseException:
            self._table.put(before)
            raise

    async def delete(self, topic: str) -> None:
        """Delete a topic with its queues and the offsets of its groups.

        Raises:
            ServiceError: TOPIC_NOT_FOUND or TOPIC_RESERVED.
        """
        refuse_system_topic(topic)
        try:
            await self._deletions.do(topic)
        except ServiceError:
            await self._effects.copied()  # As above.
            raise
        await self._effects.announce()

    async def delete_for_group(self, topic: str) -> None:
        """Delete the retry topic or the dead letters of a group, if they exist."""
        if self._table.find(topic) is None:
            return
        try:
            await self._deletions.do(topic)
        except ServiceError as error:
            if error.row.name != "TOPIC_NOT_FOUND":
                raise
        await self._effects.announce()

    async def _wake_readers(self, before: TopicConfig) -> None:
        """Wake the pulls that wait for queues of the topic, so that they see the change."""
        queues = (QueueKey(before.topic, each) for each in range(before.read_queue_count))
        await in_turns(map(self._effects.wake_queue, queues))

    async def _create_if_missing(self, topic: str, queue_count: int) -> TopicConfig:
        change = TopicChange(read_queue_count=queue_count, write_queue_count=queue_count)
        config = await self._creations.do(_Creation(topic, change, may_stand=True))
        await self._effects.announce()
        return config

    async def _create_all(self, waiting: Sequence[Waiting[_Creation, TopicConfig]]) -> None:
        """Create topics, and settle the waiting calls."""
        (left,) = await in_turns(self._limits.left_beside(self._table.all()))
        made: dict[str, TopicConfig] = {}
        hopeful: list[tuple[TopicConfig, asyncio.Future[TopicConfig]]] = []
        late: list[tuple[str, asyncio.Future[TopicConfig]]] = []
        for (topic, change, may_stand), future in waiting:
            standing = self._table.find(topic)
            if may_stand and standing is not None:
                future.set_result(standing)
                continue
            if topic in made and not may_stand:
                late.append((topic, future))
                continue
            try:
                if topic not in made:
                    config = self._new(topic, change)
                    left.take(config)
                    made[topic] = config
            except ServiceError as error:
                future.set_exception(error)
            else:
                hopeful.append((made[topic], future))
        if made:
            await self._put(*made.values())
        for config, future in hopeful:
            future.set_result(config)
        # Not earlier: had the save failed, the topic would not exist.
        for topic, future in late:
            future.set_exception(topic_exists(topic))

    def _new(self, topic: str, change: TopicChange) -> TopicConfig:
        """The settings of a new topic, unless it would hide messages."""
        config = self._table.created(topic, change)
        if not change.allow_unread_queues:
            at_once(self._unread.check(None, config))  # Compares counts only.
        return config

    async def _delete_all(self, waiting: Sequence[Waiting[str, None]]) -> None:
        """Delete topics, and settle the waiting calls."""
        standing: dict[str, asyncio.Future[None]] = {}
        late: list[tuple[str, asyncio.Future[None]]] = []
        for topic, future in waiting:
            if self._table.find(topic) is None:
                future.set_exception(topic_not_found(topic))
            elif topic in standing:
                late.append((topic, future))
            else:
                standing[topic] = future
        if standing:
            await self._remove(list(standing))
        for future in standing.values():
            future.set_result(None)
        # Not earlier: had the deletion failed, the topic would still exist.
        for topic, future in late:
            future.set_exception(topic_not_found(topic))

    async def _remove(self, topics: list[str]) -> None:
        if len(self._forgotten) > _FORGOTTEN_MAX:
            await self._settle_forgotten()
        await self._effects.reserve_epoch()
        await self._save_with(without=topics)
        configs = [self._table.get(topic) for topic in topics]
        self._table.remove(*topics)
        try:
            await self._effects.delete_queues(topics)
        except BaseException:
            # Nothing was deleted: the topics stay as they were.
            self._table.put(*configs)
            await self._save_with()
            raise
        self._forgotten.update(topics)
        await self._effects.forget(topics)
        for config in configs:
            await self._wake_readers(config)

    async def _settle_forgotten(self) -> None:
        """Wait until no file has offsets or sequences of deleted topics."""
        await self._effects.save_forgotten()
        self._forgotten.clear()

    async def _save_with(self, *configs: TopicConfig, without: Collection[str] = ()) -> None:
        (document,) = await in_turns(self._table.documented_with(*configs, without=without))
        await self._effects.save(document)

    async def _put(self, *configs: TopicConfig) -> None:
        if not self._forgotten.isdisjoint([config.topic for config in configs]):
            # An offset of the old topic would make a group skip messages of the new one.
            await self._settle_forgotten()
        await self._save_with(*configs)
        self._table.put(*configs)


def check_user_topic(topic: str) -> None:
    """Refuse a name that users may not give to a topic.

    Raises:
        ServiceError: TOPIC_NAME_ILLEGAL or TOPIC_RESERVED.
    """
    refuse_system_topic(topic)
    try:
        check_topic_name(topic)
    except IllegalName:
        raise topic_name_illegal(topic) from None


def refuse_system_topic(topic: str) -> None:
    """Refuse a topic of the system.

    Raises:
        ServiceError: TOPIC_RESERVED.
    """
    if is_system_topic(topic):
        raise topic_reserved(topic)


def check_topic_spelling(topic: str) -> None:
    """Refuse a name that no topic can have, of users or of the system.

    Raises:
        ServiceError: TOPIC_NAME_ILLEGAL.
    """
    error = user_topic_error(topic)
    if error is not None and error.row.name == "TOPIC_NAME_ILLEGAL":
        raise error


def user_topic_error(topic: str) -> ServiceError | None:
    """Why users may not give a topic this name; None if they may."""
    try:
        check_user_topic(topic)
    except ServiceError as error:
        return error
    return None
