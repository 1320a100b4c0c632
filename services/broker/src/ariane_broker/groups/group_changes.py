"""Creating, changing and deleting consumer groups: durable first, visible then.

Replicas have a change before its caller hears of it; other changes do not wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from ariane_broker.durable.whole_changes import make_whole
from ariane_broker.errors.public_errors import (
    broadcasting_disabled,
    group_deleted,
    group_limit_reached,
    group_name_illegal,
    group_not_found,
    group_paused,
)
from ariane_broker.groups.consumer_groups import (
    ConflictPolicy,
    ConsumerGroups,
    GroupChange,
    GroupConfig,
)
from ariane_record import IllegalName, check_group_name
from ariane_servicekit import in_turns
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.gate.charging import name_room
from ariane_servicekit.security.limits.meter import GROUPS

ResultT = TypeVar("ResultT")

_Known = TypeVar("_Known")

LOST_KEPT_MAX: Final = 10_000
"""So many members, and deleted groups, are remembered; the oldest are forgotten."""


class GroupChanges:
    """All changes to the set of groups while the broker serves."""

    def __init__(
        self,
        groups: ConsumerGroups,
        *,
        save: Callable[[dict[str, Any]], Awaitable[None]],
        forget_offsets: Callable[[str], Awaitable[None]],
        copied: Callable[[], Awaitable[None]],
        auto_create: bool,
        groups_max: int,
    ) -> None:
        """``save`` and ``forget_offsets`` return once the change is durable.

        ``copied`` waits until replicas have all changes. ``auto_create``: whether the first member
        creates its group.
        """
        self.lost = LostMembers()
        """The members that may miss the deletion of their group."""
        self._groups = groups
        self._save = save
        self._forget_offsets = forget_offsets
        self._copied = copied
        self._auto_create = auto_create
        self._groups_max = groups_max
        self._lock = asyncio.Lock()

    async def create(self, config: GroupConfig) -> GroupConfig:
        """Create a group.

        Raises:
            ServiceError: GROUP_EXISTS, GROUP_NAME_ILLEGAL, GROUP_LIMIT_REACHED or QUOTA_EXCEEDED.
        """
        check_user_group(config.consumer_group)
        return await self._change(lambda: self._make(config))

    async def update(self, change: GroupChange, *, allow_missing: bool = False) -> GroupConfig:
        """Change settings of a group; the others stay.

        Args:
            change: What changes.
            allow_missing: Whether to create an unknown group.

        Raises:
            ServiceError: GROUP_NOT_FOUND or FIELD_INVALID; for a new group as ``create``.
        """
        name = change.consumer_group

        async def put() -> GroupConfig:
            if allow_missing and self._groups.find(name) is None:
                check_user_group(name)
                return await self._make(change.of(GroupConfig(consumer_group=name)))
            return await self._put(self._groups.updated(change))

        return await self._change(put)

    async def delete(self, consumer_group: str) -> None:
        """Delete a group with its offsets.

        Raises:
            ServiceError: GROUP_NOT_FOUND.
        """

        async def remove() -> None:
            self._groups.get(consumer_group)
            await self._save_with(without=consumer_group)
            self._groups.remove(consumer_group)
            self.lost.note_deleted(consumer_group)
            await self._forget_offsets(consumer_group)

        await self._change(remove)

    async def check_exists(self, consumer_group: str) -> None:
        """Refuse a group that does not exist.

        Raises:
            ServiceError: GROUP_NOT_FOUND.
        """
        if self._groups.find(consumer_group) is None:
            await self._copied()  # As in a change: this call may repeat a deletion.
        self._groups.get(consumer_group)

    async def admit(
        self, consumer_group: str, *, client_id: str = "", broadcasting: bool = False
    ) -> None:
        """Let a member into a group, which is created if that is allowed; also if it is paused.

        Args:
            consumer_group: The group.
            client_id: The member; empty for tools.
            broadcasting: Whether it gets all messages.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, GROUP_NOT_FOUND, GROUP_LIMIT_REACHED, or
                ACCESS_DENIED when the group's settings forbid broadcasting.
        """
        config = self._known(consumer_group)
        if config is None:
            if self.lost.has_missed_deletion(client_id, consumer_group):
                raise group_deleted(consumer_group)
            config = await self._change(lambda: self._find_or_make(consumer_group))
        if broadcasting and not config.broadcast_enabled:
            raise broadcasting_disabled(consumer_group)

    def may_receive(self, consumer_group: str) -> bool:
        """Whether a group exists, so that ``admit`` has nothing to do for who receives.

        Raises:
            ServiceError: GROUP_PAUSED.
        """
        config = self._groups.find(consumer_group)
        if config is not None and not config.consume_enabled:
            raise group_paused(consumer_group)
        return config is not None

    def check_not_paused(self, consumer_group: str) -> None:
        """Refuse to hand messages to a group that is paused; creates none.

        Raises:
            ServiceError: GROUP_NAME_ILLEGAL, GROUP_NOT_FOUND or GROUP_PAUSED.
        """
        config = self._known(consumer_group)
        if config is not None and not config.consume_enabled:
            raise group_paused(consumer_group)

    def _known(self, consumer_group: str) -> GroupConfig | None:
        """The group; None if it does not exist and may be created."""
        config = self._groups.find(consumer_group)
        if config is None:
            check_user_group(consumer_group)
            if not self._auto_create:
                raise group_not_found(consumer_group)
        return config

    def flags_conflicts(self, consumer_group: str) -> bool:
        """Whether a group admits members whose subscription differs."""
        config = self._groups.find(consumer_group)
        return config is not None and config.conflict_policy is ConflictPolicy.FLAG

    async def _change(self, make: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Hold the lock for a change; wait without it until replicas have all changes."""
        try:
            made = await make_whole(self._lock, make)
        except ServiceError:
            await self._copied()  # A repeated call must not succeed too early.
            raise
        await self._copied()
        return made

    async def _find_or_make(self, consumer_group: str) -> GroupConfig:
        config = self._groups.find(consumer_group)
        return config or await self._make(GroupConfig(consumer_group=consumer_group))

    async def _make(self, config: GroupConfig) -> GroupConfig:
        created = self._groups.created(config)
        if len(self._groups) >= self._groups_max:
            raise group_limit_reached(self._groups_max)
        room = name_room(GROUPS)
        await in_turns(map(room.count, (each.consumer_group for each in self._groups.walk())))
        room.take(config.consumer_group)
        return await self._put(created)

    async def _save_with(self, *configs: GroupConfig, without: str | None = None) -> None:
        (document,) = await in_turns(self._groups.documented_with(*configs, without=without))
        await self._save(document)

    async def _put(self, config: GroupConfig) -> GroupConfig:
        await self._save_with(config)
        self._groups.put(config)
        return config


def check_user_group(consumer_group: str) -> None:
    """Refuse a name that users may not give to a group.

    Raises:
        ServiceError: GROUP_NAME_ILLEGAL.
    """
    try:
        check_group_name(consumer_group)
    except IllegalName:
        raise group_name_illegal(consumer_group) from None


class LostMembers:
    """Members that went without a goodbye, and groups that were deleted after that, in memory.

    A group comes to be with its first member. One that was frozen, or cut off, while its group was
    deleted is no first member: it goes on as if nothing had happened, and would make the group
    anew, with offsets that nobody wants any more. It gets an error instead.
    """

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._event_count = 0
        self._lost: dict[str, tuple[int, str]] = {}
        self._deleted: dict[str, int] = {}

    def note_lost(self, client_id: str, incarnation: str) -> None:
        """Note that a client went without a goodbye."""
        _remember(self._lost, client_id, (self._next(), incarnation))

    def note_back(self, client_id: str) -> None:
        """Note that a client is here again."""
        self._lost.pop(client_id, None)

    def note_started(self, client_id: str, incarnation: str) -> None:
        """Note that a client attaches: under the id of a lost one it may be another process."""
        if incarnation != self._lost.get(client_id, (0, incarnation))[1]:
            self.note_back(client_id)

    def note_deleted(self, consumer_group: str) -> None:
        """Note that a group was deleted."""
        _remember(self._deleted, consumer_group, self._next())

    def has_missed_deletion(self, client_id: str, consumer_group: str) -> bool:
        """Whether a group was deleted while a client was lost."""
        lost = self._lost.get(client_id)
        return lost is not None and lost[0] < self._deleted.get(consumer_group, 0)

    def _next(self) -> int:
        self._event_count += 1
        return self._event_count


def _remember(known: dict[str, _Known], name: str, what: _Known) -> None:
    known.pop(name, None)
    known[name] = what
    if len(known) > LOST_KEPT_MAX:
        del known[next(iter(known))]
