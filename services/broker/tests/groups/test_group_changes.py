"""Changes of groups, and replicas that have them late or not at all."""

import asyncio

import pytest

from ariane_broker.errors.replication import replication_unconfirmed
from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupChange, GroupConfig
from ariane_broker.groups.group_changes import GroupChanges
from ariane_servicekit import ServiceError


class Changes:
    """Groups whose file is only noted, and whose replicas do as they are told."""

    def __init__(self):
        self.groups = ConsumerGroups(now_ms=lambda: 1)
        self.saved = asyncio.Queue()
        self.copies = asyncio.Event()
        self.copies.set()
        self.error = None
        self.changes = GroupChanges(
            self.groups,
            save=self.save,
            forget_offsets=self.forget_offsets,
            copied=self.copied,
            auto_create=True,
            groups_max=9,
        )

    async def save(self, document):
        self.saved.put_nowait(list(document["subscriptionGroupTable"]))

    async def forget_offsets(self, _):
        pass

    async def copied(self):
        await self.copies.wait()
        if self.error is not None:
            raise self.error

    async def next_saved(self):
        return await asyncio.wait_for(self.saved.get(), 20)


@pytest.fixture
async def kept():
    return Changes()


async def reason_of(call):
    with pytest.raises(ServiceError) as caught:
        await call
    return caught.value.row.name


async def test_changes_that_wait_for_replicas_hold_no_others_up(kept):
    changes = kept.changes
    kept.copies.clear()
    waiting = [asyncio.create_task(changes.admit("a"))]
    assert await kept.next_saved() == ["a"]
    waiting.append(asyncio.create_task(changes.create(GroupConfig(consumer_group="b"))))
    assert await kept.next_saved() == ["a", "b"]
    waiting.append(asyncio.create_task(changes.delete("a")))
    assert await kept.next_saved() == ["b"]
    waiting.append(
        asyncio.create_task(changes.update(GroupChange(consumer_group="b", attempts_max=1)))
    )
    assert await kept.next_saved() == ["b"]
    assert not any(task.done() for task in waiting)
    kept.copies.set()
    await asyncio.gather(*waiting)


async def test_what_replicas_may_lack_is_so_here_and_the_call_can_be_repeated(kept):
    async def create():
        await kept.changes.create(GroupConfig(consumer_group="a"))

    async def delete():
        await kept.changes.check_exists("a")
        await kept.changes.delete("a")

    for call, is_there, done in (
        (create, True, "GROUP_EXISTS"),
        (delete, False, "GROUP_NOT_FOUND"),
    ):
        kept.error = replication_unconfirmed()
        assert await reason_of(call()) == "REPLICATION_UNCONFIRMED"
        assert (kept.groups.find("a") is not None) == is_there
        assert await reason_of(call()) == "REPLICATION_UNCONFIRMED"
        kept.error = None
        assert await reason_of(call()) == done
