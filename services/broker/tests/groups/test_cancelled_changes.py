"""Changes of groups whose callers are gone before they are on the disk."""

import asyncio

import pytest

from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupChange, GroupConfig
from ariane_broker.groups.group_changes import GroupChanges


async def nothing(*_):
    """Waits for nothing."""


class Place:
    """Groups, and a disk that is slow."""

    def __init__(self):
        self.groups = ConsumerGroups(now_ms=lambda: 0)
        self.groups.put(GroupConfig(consumer_group="old"))
        self.writing = asyncio.Event()
        self.written = asyncio.Event()
        self.saved = {}
        self.forgotten = []
        self.changes = GroupChanges(
            self.groups,
            save=self._save,
            forget_offsets=self._forget,
            copied=nothing,
            auto_create=True,
            groups_max=9,
        )

    async def _save(self, document):
        self.saved = document["subscriptionGroupTable"]
        self.writing.set()
        await self.written.wait()

    async def _forget(self, group):
        self.forgotten.append(group)


def pause(place):
    return place.changes.update(GroupChange(consumer_group="old", consume_enabled=False))


@pytest.mark.parametrize(
    ("change", "is_made"),
    [
        (lambda place: place.changes.admit("new"), lambda place: place.groups.find("new")),
        (pause, lambda place: not place.groups.get("old").consume_enabled),
        (lambda place: place.changes.delete("old"), lambda place: place.forgotten == ["old"]),
    ],
    ids=["create", "update", "delete"],
)
async def test_a_change_that_is_being_written_is_made_although_its_caller_is_gone(change, is_made):
    place = Place()
    call = asyncio.create_task(change(place))
    async with asyncio.timeout(60):
        await place.writing.wait()
    call.cancel()
    await asyncio.wait([call])
    place.written.set()
    # Another change waits for its turn behind it.
    await place.changes.update(GroupChange(consumer_group="last"), allow_missing=True)
    assert is_made(place)
    assert place.saved.keys() == {group.consumer_group for group in place.groups.all()}
