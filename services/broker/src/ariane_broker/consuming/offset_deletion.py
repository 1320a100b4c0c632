"""Deleting a group's offsets of one topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.durable.saved_state import SavedState
from ariane_broker.errors.public_errors import group_in_use
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets, GroupOffset
from ariane_broker.groups.group_changes import check_user_group
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_servicekit import in_turns


@dataclass(frozen=True, slots=True, eq=False)
class OffsetDeletion:
    """Deletes offsets that nobody consumes by: the group begins anew by its settings."""

    groups: ConsumerGroups
    offsets: ConsumerOffsets
    clients: ClientTable
    receiving: ReceiveLog
    _: KW_ONLY
    saved: SavedState
    """Keeps the offsets."""
    save_states: Callable[[], Awaitable[None]]
    """Saves what is in hand."""
    replicate: Callable[[], Awaitable[None]]
    """Returns once replicas have what was saved."""

    async def delete(
        self, consumer_group: str, topic: str, *, validate_only: bool
    ) -> list[GroupOffset]:
        """Delete a group's offsets in a topic, durably; the topic need not exist any more.

        Args:
            consumer_group: The group.
            topic: The topic.
            validate_only: Whether only to return the offsets.

        Returns:
            The offsets as they were, by queue.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, GROUP_NOT_FOUND, or GROUP_IN_USE while live members
                subscribe to the topic; then nothing has changed.
            StorageError: What it has in hand could not be forgotten; nothing has changed.
        """
        check_user_group(consumer_group)
        self.groups.get(consumer_group)
        self._refuse_in_use(consumer_group, topic)
        places = sorted(await in_turns(self.offsets.walk(consumer_group, topic)))
        if validate_only or not places:
            return places
        # A disk without space refuses before anything is deleted.
        self.saved.mark_changed()
        await self.saved.save()
        self._refuse_in_use(consumer_group, topic)
        # A window raises the offset of its group: it goes first, and both before anybody comes.
        self.receiving.forget(consumer_group, topic)
        self.offsets.remove_topic_of(consumer_group, topic)
        self.saved.mark_changed()
        await self.receiving.promised()
        await self.save_states()
        await self.saved.save()
        await self.replicate()
        return places

    def _refuse_in_use(self, consumer_group: str, topic: str) -> None:
        """Refuse if live members subscribe to the topic."""
        consuming = sum(
            any(one.topic == topic for one in client.memberships[consumer_group].subscriptions)
            for client in self.clients.members(consumer_group)
        )
        if consuming:
            raise group_in_use(consumer_group, consuming)
