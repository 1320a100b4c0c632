"""Brokers of one set in a simulated world: clocks of differing speed, faults by seed, real cores.

The cores under test are the shared row's changes, candidacy and standing, the reign with its lease,
and the copies that a confirmation waits for. The world around them is small: a log is a list, and
what a network, a database or a machine does is drawn.

What must hold, in every schedule:

* at most one primary acknowledges in an epoch, and none once a later one is elected;
* no lease lasts when another broker is elected;
* no acknowledged message is lost or changed, and none appears twice.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from ariane_broker.following.lost_end import LostEnd
from ariane_broker.following.standing import Member, OwnLog, OwnStore, Standing
from ariane_broker.replication.copies import Copies
from ariane_broker.replication.reign import Reign
from ariane_broker.replication.replica_set import BrokerWish
from ariane_broker.replication.shared_row import RowUnreachable
from ariane_storage.log.epoch_history import EpochStart, common_end
from services.broker.tests.replication.kept_marks import Kept, mark_of

LEASE_S = 5.0
BEHIND_S = 4.0


class World:
    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.now = 100.0
        self.row = None
        self.acknowledged = {}
        self.acknowledging = {}
        self.cut_links = set()
        self.nodes = [Node(self, number) for number in range(self.dice.choice([2, 3, 3]))]

    def linked(self, one, other):
        return (one.id, other.id) not in self.cut_links

    def acknowledge(self, node, message, place):
        epoch = node.reign.epoch
        primary = self.acknowledging.setdefault(epoch, node.id)
        assert primary == node.id, f"two primaries acknowledge in epoch {epoch}"
        assert self.row.epoch == epoch, f"{node.id} acknowledges in {epoch} after {self.row.epoch}"
        assert message not in self.acknowledged
        self.acknowledged[message] = place


class WorldRow:
    """The shared row as one broker reaches it."""

    def __init__(self, node):
        self.node = node

    async def read(self):
        self._reach()
        return self.node.world.row

    async def change(self, changed):
        self._reach()
        world = self.node.world
        current = world.row.version if world.row is not None else 0
        done = changed.version == current + 1
        if done:
            world.row = changed
        if world.dice.random() < 0.03:
            raise RowUnreachable  # Done or not: nobody heard.
        return done

    def _reach(self):
        if not self.node.reaches_row:
            raise RowUnreachable


class Backup(NamedTuple):
    """The store of a node at some moment."""

    log: list
    starts: list
    note: dict
    mark: dict


class Node:
    def __init__(self, world, number):
        self.world = world
        self.id = number
        self.speed = world.dice.uniform(0.98, 1.02)
        self.log = []  # (epoch, message)
        self.starts = []
        self.flushed = 0
        self.reaches_row = True
        self.is_up = self.is_paused = False
        self.has_crashed = False
        self.boots = 0
        self.note, self.mark = Kept(), Kept()
        self.store_mark, self.marked_at = None, 0.0
        self.backup = None
        self.reign = self.standing = self.copies = None
        self.pending = []
        self.following = None

    def monotonic(self):
        return self.world.now * self.speed

    @property
    def acts(self):
        return self.is_up and not self.is_paused

    def start(self):
        self.is_up, self.is_paused = True, False
        crashed, self.has_crashed = self.has_crashed, True
        self.become_replica(crashed=crashed)

    def become_replica(self, *, crashed=False):
        mode = "sync" if self.world.sync_flush else "async"
        lost_end = LostEnd(self.note, lambda: str(self.boots), flush_mode=mode)

        async def settle():
            lost_end.settle()

        self.reign = self.copies = None
        self.pending.clear()
        self.following = None
        self.standing = Standing(
            WorldRow(self),
            Member(self.id, f"node{self.id}", BrokerWish(self.id % 2, "ab"[self.id // 2 % 2])),
            OwnStore(
                log=self.own_log,
                mark=self.found_mark(),
                is_new=False,
                may_lack_end=lost_end.check(crashed=crashed),
                has_agreed=lambda: self.following is not None,
                settle=settle,
            ),
            lease_s=LEASE_S,
            begins_anew=False,
            draw_set_id=lambda: "s",
            monotonic=self.monotonic,
        )

    def found_mark(self):
        self.store_mark, self.marked_at = mark_of(self.mark, self.id), self.monotonic()
        return self.store_mark

    def own_log(self):
        epoch = self.starts[-1].epoch if self.starts else 0
        return OwnLog("s", epoch, 0, len(self.log), confirmed=0)

    def become_primary(self, elected):
        self.standing = None
        self.reign = Reign(
            elected.row,
            elected.replica_set,
            self.id,
            elected_at_s=elected.asked_at_s,
            lease_s=LEASE_S,
            monotonic=self.monotonic,
            on_deposed=lambda: None,
        )
        others = elected.replica_set.in_sync - {self.id}
        self.copies = Copies(
            others, self.monotonic(), flushed=self.world.sync_flush, behind_s_max=BEHIND_S
        )
        self.copies.inherit(len(self.log), self.monotonic())
        self.begin_epoch(self.reign.epoch, len(self.log))

    def begin_epoch(self, epoch, begin):
        self.starts = [start for start in self.starts if start.begin <= begin]
        assert not self.starts or self.starts[-1].epoch < epoch
        self.starts.append(EpochStart(epoch, begin))

    def go_down(self, *, in_order=False):
        if in_order:
            self.flush()
            self.has_crashed = False
        self.is_up = False
        self.reign = self.standing = self.copies = None
        self.pending.clear()

    def lose_power(self):
        kept = self.world.dice.randint(self.flushed, len(self.log))
        del self.log[kept:]
        self.starts = [start for start in self.starts if start.begin <= kept]
        self.boots += 1
        self.go_down()

    def back_up(self):
        """A copy of the store, whether it is open or not."""
        self.backup = Backup(
            list(self.log), list(self.starts), self.note.state, self.mark.state or {"mark": 0}
        )

    def put_back(self):
        self.log, self.starts = list(self.backup.log), list(self.backup.starts)
        self.flushed = len(self.log)
        self.note.state, self.mark.state = self.backup.note, self.backup.mark
        self.go_down()

    # What it does.

    async def turn(self):
        try:
            if self.reign is None:
                elected = await self.standing.turn()
                if elected is not None:
                    self.become_primary(elected)
                return
            if self.monotonic() - self.marked_at >= LEASE_S:
                await self.store_mark.tend()
                self.reign.mark, self.marked_at = self.store_mark.value, self.monotonic()
            known = min(self.reign.replica_set.confirmed, len(self.log))
            await self.reign.renew(max(known, self.copies.confirmed(self.own)))
            await self.take_in_and_out()
        except RowUnreachable:
            return
        finally:
            if self.reign is not None and self.reign.is_deposed:
                self.become_replica()

    async def hand_over(self):
        """As ``Primary`` does, to one that has all there is; or an operator wants somebody next."""
        row, dice = self.world.row, self.world.dice
        whom = dice.choice(self.world.nodes)
        try:
            if whom.id in row.in_sync and dice.random() < 0.1:
                await WorldRow(self).change(row.wanting(whom.id, unclean=False))
            elif whom.id in self.copies.waited_for and self.brings_up(whom):
                await self.reign.resign(whom.id)
        except RowUnreachable:
            return
        finally:
            if self.reign.is_deposed:
                self.become_replica()

    def brings_up(self, other):
        """Whether another one catches up."""
        for _ in range(20):
            if other.acts:
                other.follow()
        return self.copies.safe(self.copies.members[other.id]) >= len(self.log)

    async def take_in_and_out(self):
        """As ``Primary`` does."""
        if self.reign.is_deposed:
            return
        copies = self.copies
        copies.wait_for(self.reign.replica_set.in_sync - {self.id})
        now_s, confirmed = self.monotonic(), copies.confirmed(self.own)
        late, ready = copies.late(now_s), copies.ready(confirmed, 0, now_s)
        if late or ready:
            copies.wait_for(copies.waited_for | ready)
            in_sync = await self.reign.change_in_sync(
                lambda now: (now - late) | copies.still_have(ready, confirmed) | {self.id}
            )
            copies.wait_for(in_sync - {self.id})

    @property
    def own(self):
        return self.flushed if self.world.sync_flush else len(self.log)

    def append(self, message):
        if self.reign is not None and self.reign.holds:
            self.log.append((self.reign.epoch, message))
            self.pending.append((message, len(self.log)))

    def flush(self):
        self.flushed = len(self.log)

    def confirm(self):
        if self.reign is None:
            return
        confirmed = self.copies.confirmed(self.own)
        while self.pending and self.pending[0][1] <= confirmed:
            message, end = self.pending.pop(0)
            if self.reign.holds:
                self.world.acknowledge(self, message, end - 1)

    def follow(self):
        """Take some of the log of whom the row, as it was read last, names as primary."""
        known = self.standing.replica_set if self.standing is not None else None
        if known is None or known.primary_id in {None, self.id} or not self.standing.may_follow:
            return
        primary = self.world.nodes[known.primary_id]
        reign = primary.reign
        if not primary.acts or reign is None or reign.is_deposed or known.epoch > reign.epoch:
            return
        if not (self.world.linked(primary, self) and self.world.linked(self, primary)):
            self.following = None
        if not self.world.linked(primary, self):
            return
        if self.following is not reign:
            if not self.attach(primary):
                return
            self.following = reign
        self.take(primary)

    def attach(self, primary):
        if not self.world.linked(self, primary):
            return False
        end = common_end(primary.starts, len(primary.log), self.starts, len(self.log))
        if end is None:
            assert not self.log
            end = 0
        del self.log[end:]
        self.flushed = min(self.flushed, end)
        self.starts = [start for start in primary.starts if start.begin <= end]
        primary.copies.attached(self.id, "", primary.monotonic())
        return True

    def take(self, primary):
        count = self.world.dice.randint(0, 4)
        for place in range(len(self.log), min(len(self.log) + count, len(primary.log))):
            epoch = primary.log[place][0]
            if not self.starts or self.starts[-1].epoch != epoch:
                [start] = [start for start in primary.starts if start.epoch == epoch]
                self.begin_epoch(*start)
            self.log.append(primary.log[place])
        if self.world.sync_flush:
            self.flush()
        if self.world.linked(self, primary):
            copy = primary.copies.members[self.id]
            now_s, end = primary.monotonic(), len(primary.log)
            copy.progressed(len(self.log), self.flushed, end=end, now_s=now_s)


async def run(seed, *, sync_flush, power_losses=0, backups=0):
    world = World(seed)
    world.sync_flush, world.power_losses, world.backups = sync_flush, power_losses, backups
    dice, nodes = world.dice, world.nodes
    for node in nodes:
        node.start()
    number = 0
    for _ in range(700):
        world.now += dice.choice([0.01, 0.05, 0.2, 0.6])
        node = dice.choice(nodes)
        strike(world, node)
        if world.backups and node.backup is not None and dice.random() < 0.05:
            await restore(world, node)
        if not node.acts:
            continue
        what = dice.random()
        if what < 0.3:
            await node.turn()
        elif what < 0.5:
            number += 1
            node.append(number)
        elif what < 0.85:
            node.follow()
        elif what < 0.9:
            node.flush()
        elif node.reign is not None and node.reign.holds:
            await node.hand_over()
        observe(world)
    await settle(world)
    return world


def observe(world):
    """Acknowledge what is confirmed, and look at all leases."""
    for node in world.nodes:
        if node.acts:
            node.confirm()
        if node.reign is not None and node.reign.holds:
            assert world.row.epoch == node.reign.epoch, "a lease outlives an election"


def strike(world, node):
    """Perhaps a fault."""
    dice, fault = world.dice, world.dice.random()
    if fault < 0.012:
        node.go_down()
    elif fault < 0.05 and not node.is_up:
        node.start()
    elif 0.05 <= fault < 0.065:
        node.is_paused = not node.is_paused
    elif 0.065 <= fault < 0.08:
        node.reaches_row = not node.reaches_row
    elif 0.08 <= fault < 0.1:
        world.cut_links ^= {tuple(dice.choices(range(len(world.nodes)), k=2))}
    elif 0.1 <= fault < 0.105:
        world.cut_links.clear()
    elif 0.105 <= fault < 0.15 and world.power_losses and node.is_up:
        pull_the_plug(world, node)
    elif 0.15 <= fault < 0.17 and world.backups:
        node.back_up()


def pull_the_plug(world, node):
    """What others count on may be gone, where nobody waits for disks: it must be with them, too."""
    in_sync = world.row.in_sync if world.row is not None else frozenset()
    if not world.sync_flush and not in_sync > {node.id}:
        return
    world.power_losses -= 1
    node.lose_power()
    if world.dice.random() < 0.5:  # The others die, too, and this one is back first.
        for one in world.nodes:
            one.go_down()
        node.start()
        if world.dice.random() < 0.5:  # Its first start ends before it has reached the row.
            node.go_down(in_order=world.dice.random() < 0.5)
            node.start()


async def restore(world, node):
    """An earlier store is in its place, while others have what was added since, and all die.

    Something was confirmed right before, of which the row knows nothing.
    """
    row = world.row
    if row is None or not row.in_sync > {node.id}:
        return
    if row.marks.get(node.id, 0) <= node.backup.mark["mark"]:
        return  # From less than a lease ago: it may still count.
    world.backups -= 1
    for number in range(3):
        for one in world.nodes:
            if one.acts:
                one.append(f"{node.id} before {number}")
        for one in [*world.nodes] * 5:
            if one.acts:
                one.follow()
                one.flush()
        observe(world)
    node.put_back()
    for one in world.nodes:
        one.go_down()
    node.start()
    for _ in range(30):
        world.now += 0.5
        await node.turn()


async def settle(world):
    """Heal everything, and wait until all have the same."""
    world.cut_links.clear()
    for node in world.nodes:
        node.reaches_row = True
        node.is_paused = False
        if not node.is_up:
            node.start()
    for _ in range(400):
        world.now += 0.1
        for node in world.nodes:
            await node.turn()
            if node.reign is None:
                node.follow()
            else:
                node.flush()
                node.confirm()
    primaries = [node for node in world.nodes if node.reign is not None]
    assert len(primaries) == 1
    assert world.row.in_sync == {node.id for node in world.nodes}
    for node in world.nodes:
        assert node.log == primaries[0].log
        messages = [message for _, message in node.log]
        assert len(set(messages)) == len(messages)
        for message, place in world.acknowledged.items():
            assert messages[place] == message


@pytest.mark.parametrize("block", range(4))
async def test_nothing_acknowledged_is_lost_whatever_dies_pauses_or_is_cut_off(block):
    acknowledged = epochs = 0
    for seed in range(block * 40, block * 40 + 40):
        world = await run(seed, sync_flush=False)
        acknowledged += len(world.acknowledged)
        epochs += world.row.epoch
    assert acknowledged > 200
    assert epochs > 100


@pytest.mark.parametrize("block", range(2))
async def test_nothing_on_disks_is_lost_with_power(block):
    for seed in range(block * 40, block * 40 + 40):
        await run(seed, sync_flush=True, power_losses=20)


@pytest.mark.parametrize("block", range(2))
async def test_one_power_loss_takes_nothing_that_others_have(block):
    """Under asynchronous flush: who may lack the end of its log is not elected."""
    for seed in range(block * 40, block * 40 + 40):
        await run(seed, sync_flush=False, power_losses=1)


@pytest.mark.parametrize("sync_flush", [False, True])
async def test_a_store_put_back_to_an_earlier_state_takes_nothing_that_others_have(sync_flush):
    """Whenever it and the others were killed: also before the row knew what was confirmed last."""
    count = 0
    for seed in range(40):
        world = await run(seed, sync_flush=sync_flush, backups=1)
        count += not world.backups
    assert count > 10
