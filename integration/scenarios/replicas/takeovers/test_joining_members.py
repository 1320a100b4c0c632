"""Members that join while a broker's role moves begin where those before them were."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from replica_group import in_sync, reigning

from ariane_sdk import ClusterClient, Message, Producer, PushConsumer
from ariane_sdk.errors import CallError

GROUP = "pushed"
JOINED_AFTER_S = (0.0, 0.3, 0.6, 1.0, 1.5, 2.0, 2.5, 3.0)
"""How long after the role has begun to move each time a member starts."""


class Group:
    """A group of one member and another one, and what they get."""

    def __init__(self, cluster):
        self.name_servers = cluster.name_servers
        self.got = Counter()

    async def listen(self, messages):
        self.got.update((message.queue_id, message.queue_offset) for message in messages)

    def member(self):
        return PushConsumer(
            self.name_servers,
            group=GROUP,
            start="earliest",
            subscriptions={"orders": "*"},
            listener=self.listen,
        )

    async def join(self, after_s):
        """Start another one, as soon as somebody lets it in."""
        await asyncio.sleep(after_s)
        async with asyncio.timeout(60):
            while True:
                member = self.member()
                with suppress(CallError):  # Nobody may be there.
                    await member.start()
                    return member
                await member.close()

    def count_again(self):
        return sum(count > 1 for count in self.got.values())


@pytest.fixture
async def group(local_cluster):
    async with local_cluster("--primary-lease-s", "2.5", replicas=2) as cluster:
        await in_sync(cluster.brokers[0], 0, 1, 2)
        group = Group(cluster)
        group.cluster = cluster
        yield group


class Role:
    """The role of primary, which moves: handed over in order, or because who has it dies."""

    def __init__(self, cluster, ariane):
        self._cluster = cluster
        self._ariane = ariane
        self._brokers = [cluster.brokers[0], *cluster.replicas]

    async def hand_over(self):
        primary = await reigning(self._brokers)
        heir = 1 - min(1, self._brokers.index(primary))
        to = ("broker-a", "--to", str(heir), "--yes")
        status, said = await self._ariane(self._cluster, "broker", "ha", "switchover", *to)
        assert status == 0, said
        await in_sync(self._brokers[heir], 0, 1, 2)

    async def kill(self):
        primary = await reigning(self._brokers)
        primary.kill()
        await primary.wait()
        heir = await reigning(self._brokers)
        await primary.restart()
        await in_sync(heir, 0, 1, 2)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("move", [Role.hand_over, Role.kill])
async def test_members_that_join_while_the_role_moves_repeat_nothing(group, ariane, until, move):
    """Before the role moves, at the same time, and while nobody has it."""
    role, sent, load_ends, repeats = Role(group.cluster, ariane), [], [], {}
    async with (
        Producer(group.name_servers) as producer,
        ClusterClient(group.name_servers) as client,
    ):
        await producer.send(Message("orders", b"first"))

        async def send():
            while not load_ends:
                sent.extend(await producer.send_batch([Message("orders", b"x")] * 50))
                await asyncio.sleep(0.02)  # Replicas keep pace on a machine of two cores.

        async def both_are_there():
            with suppress(CallError):  # Name servers may not know the new primary yet.
                return len((await client.members_of_groups()).get(GROUP, ())) == 2

        async with group.member():
            load = asyncio.create_task(send())
            for after_s in JOINED_AFTER_S:
                before = group.count_again()
                joining = asyncio.create_task(group.join(after_s))
                await move(role)
                joined = await joining
                await until(both_are_there)

                async def has_a_share(member=joined):
                    return member.assignment

                await until(has_a_share)
                await joined.close()
                repeats[after_s] = group.count_again() - before
            load_ends.append(True)
            await load

            async def all_came():
                return len(group.got) > len(sent)

            await until(all_came)
    assert not any(repeats.values()), repeats
    assert set(group.got.values()) == {1}
