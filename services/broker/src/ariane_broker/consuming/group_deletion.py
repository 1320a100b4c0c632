"""Deleting a consumer group with all its state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.errors.public_errors import group_in_use
from ariane_broker.groups.group_changes import GroupChanges, check_user_group
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.retry.redriven_table import RedrivenTable
from ariane_broker.retry.return_table import ReturnTable
from ariane_broker.topics.topic_changes import TopicChanges
from ariane_record.names import dead_letter_topic, retry_topic
from ariane_servicekit import in_turns
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    """The messages of a deleted group."""

    retry_message_count: int
    """Messages in its retry topic, consumed ones included."""
    dead_letter_count: int
    """Its dead letters."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupDeletion:
    """Deletes groups.

    The group itself is deleted last: after an interruption the call can be repeated.
    """

    groups: GroupChanges
    topics: TopicChanges
    store: Store
    _: KW_ONLY
    clients: ClientTable
    returns: ReturnTable
    redriven: RedrivenTable
    receiving: ReceiveLog
    save_states: Callable[[], Awaitable[None]]
    """Saves the states of returns, of redriven letters and of messages in hand."""

    async def delete(self, consumer_group: str, *, keep_dead_letters: bool = False) -> DeletedGroup:
        """Delete a group with its offsets, its retry topic, and its dead letters unless kept.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, GROUP_NOT_FOUND or GROUP_IN_USE.
            StorageError: What it has in hand could not be forgotten.
        """
        check_user_group(consumer_group)
        self._refuse_in_use(consumer_group)
        await self.groups.check_exists(consumer_group)
        retries, letters = retry_topic(consumer_group), dead_letter_topic(consumer_group)
        deleted = DeletedGroup(self._count(retries), self._count(letters))
        await self.topics.delete_for_group(retries)
        await in_turns(self.returns.forget_group(consumer_group))
        if not keep_dead_letters:
            await self.topics.delete_for_group(letters)
            await in_turns(self.redriven.forget_topic(letters))
        self.receiving.forget(consumer_group)
        await self.receiving.promised()
        # A new group of this name must not inherit state that the log has of this one.
        await self.save_states()
        # Who has come meanwhile keeps the group with its settings and offsets.
        self._refuse_in_use(consumer_group)
        await self.groups.delete(consumer_group)
        return deleted

    def _refuse_in_use(self, consumer_group: str) -> None:
        members = self.clients.members(consumer_group)
        if members:
            raise group_in_use(consumer_group, len(members))

    def _count(self, topic: str) -> int:
        config = self.topics.find(topic)
        queue_count = 0 if config is None else config.read_queue_count
        store = self.store
        # Including messages that a new primary does not let be read yet: these are deleted as well.
        return sum(
            store.queue_end(topic, queue_id) - store.queue_bounds(topic, queue_id)[0]
            for queue_id in range(queue_count)
        )
