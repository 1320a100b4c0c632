"""Deleting a consumer group with all its state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.errors.public_errors import group_in_use
from ariane_broker.groups.group_changes import GroupChanges, check_user_group
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.retry.redriven_table import RedrivenTable
from ariane_broker.retry.return_table import ReturnTable
from ariane_broker.topics.topic_changes import TopicChanges
from ariane_record.names import dead_letter_topic, retry_topic
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    """The messages of a deleted group.

    Attributes:
        retry_message_count: Messages in its retry topic, consumed ones included.
        dead_letter_count: Its dead letters.
    """

    retry_message_count: int
    dead_letter_count: int


class GroupDeletion:
    """Deletes groups.

    The group itself is deleted last: after an interruption the call can be repeated.
    """

    def __init__(
        self,
        groups: GroupChanges,
        topics: TopicChanges,
        store: Store,
        *,
        clients: ClientTable,
        returns: ReturnTable,
        redriven: RedrivenTable,
        receiving: ReceiveTable,
        save_states: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the parts.

        Args:
            groups: Deletes the group with its offsets.
            topics: Deletes its topics.
            store: The store.
            clients: Its members.
            returns: The failed messages that it returned lately.
            redriven: Its dead letters that were sent back.
            receiving: The messages that it has in hand.
            save_states: Saves the state of the last three.
        """
        self._groups = groups
        self._topics = topics
        self._store = store
        self._clients = clients
        self._returns = returns
        self._redriven = redriven
        self._receiving = receiving
        self._save_states = save_states

    async def delete(self, consumer_group: str, *, keep_dead_letters: bool = False) -> DeletedGroup:
        """Delete a group with its offsets, its retry topic, and its dead letters unless kept.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, GROUP_NOT_FOUND or GROUP_IN_USE.
        """
        check_user_group(consumer_group)
        members = self._clients.members(consumer_group)
        if members:
            raise group_in_use(consumer_group, len(members))
        await self._groups.check_exists(consumer_group)
        retries, letters = retry_topic(consumer_group), dead_letter_topic(consumer_group)
        deleted = DeletedGroup(self._count(retries), self._count(letters))
        await self._topics.delete_for_group(retries)
        self._returns.forget_group(consumer_group)
        if not keep_dead_letters:
            await self._topics.delete_for_group(letters)
            self._redriven.forget_topic(letters)
        self._receiving.forget_group(consumer_group)
        # A new group of this name must not inherit state that the log has of this one.
        await self._save_states()
        await self._groups.delete(consumer_group)
        return deleted

    def _count(self, topic: str) -> int:
        config = self._topics.find(topic)
        queue_count = 0 if config is None else config.read_queue_count
        store = self._store
        # Including messages that a new primary does not let be read yet: these are deleted as well.
        return sum(
            store.queue_end(topic, queue_id) - store.queue_bounds(topic, queue_id)[0]
            for queue_id in range(queue_count)
        )
