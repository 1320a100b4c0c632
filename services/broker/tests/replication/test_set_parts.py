"""The row in its database, the reign, the copies, and waiting for them: each alone."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from ariane_broker.log.promise import AcknowledgedLevel, Condition
from ariane_broker.replication.confirmation import (
    Confirmation,
    ReplicatedPromise,
    by_enough,
    fenced,
)
from ariane_broker.replication.copies import Copies, Progress
from ariane_broker.replication.database_row import DatabaseRow
from ariane_broker.replication.reign import Reign
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.shared_row import RowUnreachable
from ariane_servicekit import ServiceError


class TestRow:
    async def test_one_of_two_changes_wins(self, rows):
        one, other = rows
        assert await one.read() is None
        begun = ReplicaSet().begun(0, "h:1", set_id="s")
        assert await one.change(begun)
        assert not await other.change(ReplicaSet().begun(0, "h:2", set_id="s"))
        assert await other.read() == begun
        elected = begun.elected(0, 1)
        assert await one.change(elected)
        assert not await other.change(begun.at(1, "h:2"))
        joined = elected.at(1, "h:2").with_in_sync(frozenset({0, 1}))
        assert not await other.change(joined)  # Two steps at once skip a change of others.
        assert await other.change(elected.at(1, "h:2"))
        assert await one.read() == elected.at(1, "h:2")

    async def test_a_database_that_does_not_do_it_is_away_in_one_line(self, rows, tmp_path):
        one, _ = rows
        begun = ReplicaSet().begun(0, "h:1", set_id="s")
        await one.change(begun)
        with sqlite3.connect(tmp_path / "set.db") as gone:
            gone.execute("DROP TABLE replica_set")
        for asked in (one.read(), one.change(begun.elected(0, 1))):
            with pytest.raises(RowUnreachable, match=r"^no such table: replica_set$"):
                await asked

    async def test_rows_of_other_names_are_apart(self, rows, tmp_path):
        one, _ = rows
        other = DatabaseRow(one._database, "c", "broker-b", wait_s_max=10)
        await one.change(ReplicaSet().begun(0, "h:1", set_id="s"))
        assert await other.read() is None

    def test_only_those_in_sync_are_elected_unless_an_operator_says_so(self):
        row = ReplicaSet().begun(0, "a", set_id="s").elected(0, 1).at(1, "b").at(2, "c")
        with pytest.raises(ValueError, match="cannot be elected"):
            row.elected(1, 2)
        both = row.with_in_sync(frozenset({0, 1}))
        with pytest.raises(ValueError, match="cannot be elected"):
            both.elected(1, 1)
        assert both.elected(1, 2).in_sync == {1}
        ordered = both.wanting(2, unclean=True).elected(2, 2)
        assert (ordered.in_sync, ordered.unclean, ordered.wanted_id) == ({2}, False, None)

    @pytest.mark.parametrize("unclean", [False, True])
    def test_an_order_ends_with_the_next_sign_of_life_of_the_primary(self, unclean):
        row = ReplicaSet().begun(0, "a", set_id="s").elected(0, 1).at(1, "b").at(2, "c")
        both = row.with_in_sync(frozenset({0, 1}))
        ordered = both.wanting(2, unclean=unclean)
        everybody = frozenset({0, 1, 2})
        for after in (ordered.renewed(0), ordered.with_in_sync(everybody), ordered.removed(2)):
            assert (after.wanted_id, after.unclean) == (None, False)
        # It is stopped in order, and names nobody or another one.
        for wanted_id in (None, 1):
            after = ordered.resigned(wanted_id)
            assert (after.wanted_id, after.unclean) == (wanted_id, False)
            assert [one for one in (0, 1, 2) if after.may_elect(one)] == [0, 1]

    def test_it_is_the_same_from_its_document(self):
        row = ReplicaSet().begun(0, "a", set_id="s", epoch=7).elected(0, 8, lease_s=2.5).at(1, "b")
        assert ReplicaSet.of(row.version, row.document()) == row

    def test_neither_the_primary_nor_the_last_one_leaves(self):
        row = ReplicaSet().begun(0, "a", set_id="s").elected(0, 1).at(1, "b")
        with pytest.raises(ValueError, match="last one"):
            row.without(0)
        with pytest.raises(ValueError, match="in sync with itself"):
            row.with_in_sync(frozenset({1}))
        with pytest.raises(ValueError, match="neither the primary"):
            row.removed(0)
        assert 1 not in row.with_in_sync(frozenset({0, 1})).removed(1).addresses

    def test_routes_name_the_primary_0_whoever_it_is(self):
        row = ReplicaSet().begun(0, "a", set_id="s").elected(0, 1).at(1, "b").at(2, "c")
        assert row.routed_replicas == {1: "b", 2: "c"}
        row = row.with_in_sync(frozenset({0, 1})).elected(1, 2)
        assert row.routed_replicas == {1: "a", 2: "c"}


class TestReign:
    @pytest.fixture
    async def reign(self, rows):
        one, _ = rows
        self.now, self.deposed = 10.0, []
        begun = ReplicaSet().begun(0, "a", set_id="s")
        await one.change(begun)
        elected = begun.elected(0, 1)
        await one.change(elected)
        return Reign(
            one,
            elected,
            0,
            elected_at_s=10.0,
            lease_s=5.0,
            monotonic=lambda: self.now,
            on_deposed=lambda: self.deposed.append(True),
        )

    async def test_it_holds_as_long_as_it_is_renewed(self, reign):
        self.now = 14.9
        assert reign.holds
        await reign.renew(0)
        self.now = 19.8
        assert reign.holds
        self.now = 20.0
        assert not reign.holds
        await reign.renew(0)  # Nobody took it meanwhile.
        assert reign.holds

    async def test_changes_of_others_are_taken_over_and_an_election_ends_it(self, reign, rows):
        _, other = rows
        joined = (await other.read()).at(1, "b")
        await other.change(joined)
        assert await reign.change_in_sync(lambda now: now | {1}) == {0, 1}
        assert reign.replica_set.addresses == {0: "a", 1: "b"}
        found = await other.read()
        await other.change(found.elected(1, 2))
        await reign.renew(0)
        assert reign.is_deposed
        assert not reign.holds
        assert self.deposed == [True]

    async def test_it_is_handed_over(self, reign, rows):
        _, other = rows
        await other.change((await other.read()).at(1, "b"))
        await reign.change_in_sync(lambda now: now | {1})
        assert await reign.resign(1)
        assert not reign.holds
        found = await other.read()
        assert (found.primary_id, found.wanted_id, found.in_sync) == (None, 1, {0, 1})


class TestCopies:
    def test_what_is_confirmed_is_what_all_in_sync_have(self):
        copies = Copies([1], 0.0, flushed=False, behind_s_max=5.0)
        assert copies.confirmed(100) == 0
        one, two = copies.attached(1, "", 0.0), copies.attached(2, "", 0.0)
        one.progressed(90, 40, end=100, now_s=1.0)
        two.progressed(60, 60, end=100, now_s=1.0)
        assert copies.confirmed(100) == 90
        assert copies.confirmed(80) == 80
        assert copies.ready(90, 0, 1.0) == frozenset()
        two.progressed(100, 60, end=100, now_s=2.0)
        assert copies.ready(90, 0, 2.0) == {2}
        # Who made a topic did not wait for it.
        assert copies.ready(90, 1, 2.0) == frozenset()
        two.state_version = 1
        assert copies.ready(90, 1, 2.0) == copies.still_have(frozenset({2}), 90) == {2}
        copies.attached(2, "", 3.0)  # It has begun anew while the row was changed.
        assert copies.still_have(frozenset({2}), 90) == frozenset()
        two.attached = False
        copies.forget(2)  # It has been taken out meanwhile.
        assert copies.still_have(frozenset({2}), 90) == frozenset()
        assert copies.late(5.5) == {1}
        assert Copies([1], 0.0, flushed=True, behind_s_max=5.0).safe(one) == 40

    def test_what_comes_after_a_change_of_topics_counts_once_the_copy_has_that_too(self):
        copies = Copies([1], 0.0, flushed=False, behind_s_max=5.0)
        copy = copies.attached(1, "", 0.0)
        copies.state_changed(1, 50)
        copies.state_changed(2, 70)
        copy.progressed(100, 0, end=100, now_s=1.0)
        assert copies.confirmed(100) == 50
        copy.state_version = 1
        assert copies.confirmed(100) == 70
        copy.state_version = 2
        assert copies.confirmed(100) == 100

    def test_who_is_removed_holds_nobody_up(self):
        copies = Copies([1, 2], 0.0, flushed=False, behind_s_max=5.0)
        copies.attached(1, "", 0.0).progressed(90, 0, end=100, now_s=1.0)
        assert copies.confirmed(100) == 0
        copies.forget(2)
        assert (copies.waited_for, set(copies.members)) == ({1}, {1})
        assert copies.confirmed(100) == 90
        copies.forget(1)  # It has come back: its stream goes on.
        assert (copies.waited_for, set(copies.members)) == (set(), {1})

    def test_who_keeps_pace_is_never_late_although_there_is_always_more(self):
        copies = Copies([1], 0.0, flushed=False, behind_s_max=1.0)
        copy = copies.attached(1, "", 0.0)
        for step in range(1, 100):
            # It always has what there was when it was heard of before.
            copy.progressed(step * 10, 0, end=step * 10 + 10, now_s=step * 0.1)
            assert copies.late(step * 0.1) == frozenset()

    def test_who_gets_the_log_but_no_topics_is_late(self):
        copies = Copies([1], 0.0, flushed=False, behind_s_max=5.0)
        copy = copies.attached(1, "", 0.0)
        for now_s in range(7):
            copies.progressed(copy, Progress(9, 9, 9, 0), end=9, version=1, now_s=now_s)
        assert copies.late(6.0) == {1}
        copies.progressed(copy, Progress(9, 9, 9, 1), end=9, version=1, now_s=7.0)
        assert copies.late(7.0) == frozenset()

    def test_who_gets_topics_is_never_late_although_they_always_change(self):
        copies = Copies([1], 0.0, flushed=False, behind_s_max=1.0)
        copy = copies.attached(1, "", 0.0)
        for step in range(100):
            known = max(step - 3, 0)
            copies.progressed(copy, Progress(9, 9, 9, known), end=9, version=step, now_s=step * 0.1)
            assert copies.late(step * 0.1) == frozenset()


class TestConfirmation:
    async def test_those_who_wait_are_told_and_nobody_by_a_primary_that_is_none(self):
        holds = True
        confirmation = Confirmation(lambda: holds, wait_s_max=60)
        promise = ReplicatedPromise((), confirmation.when_confirmed, lambda: True)
        kept = [asyncio.ensure_future(promise.kept(end)) for end in (10, 20, 30)]
        await asyncio.sleep(0)
        confirmation.advance(20)
        assert [await kept[0], await kept[1]] == [AcknowledgedLevel.REPLICATED] * 2
        assert not kept[2].done()
        holds = False
        confirmation.advance(30)
        for late in (kept[2], promise.kept(5)):
            with pytest.raises(ServiceError) as caught:
                await late
            assert caught.value.row.name == "REPLICATION_UNCONFIRMED"

    async def test_who_waits_too_long_hears_that_nobody_knows(self):
        confirmation = Confirmation(lambda: True, wait_s_max=0.01)
        promise = ReplicatedPromise((), confirmation.when_confirmed, lambda: True)
        with pytest.raises(ServiceError, match="it may be lost"):
            await promise.kept(10)

    async def test_alone_in_sync_the_level_is_that_of_the_own_disk(self):
        own = (Condition(AcknowledgedLevel.FLUSHED, lambda _, on_done: on_done(None)),)
        promise = ReplicatedPromise(own, lambda _, on_done: on_done(None), lambda: False)
        assert await promise.kept(1) is AcknowledgedLevel.FLUSHED

    async def test_what_is_confirmed_by_too_few_is_not_acknowledged(self):
        in_sync = 2
        confirmation = Confirmation(lambda: True, wait_s_max=60)
        enough = by_enough(confirmation.when_confirmed, lambda: in_sync >= 2)
        promise = ReplicatedPromise((), enough, lambda: in_sync > 1)
        kept = [asyncio.ensure_future(promise.kept(end)) for end in (10, 20)]
        await asyncio.sleep(0)
        confirmation.advance(10)
        assert await kept[0] is AcknowledgedLevel.REPLICATED
        in_sync = 1  # The replica was taken out of the set, and is waited for no more.
        confirmation.advance(20)
        with pytest.raises(ServiceError) as caught:
            await kept[1]
        assert caught.value.row.name == "REPLICATION_UNCONFIRMED"

    async def test_a_flush_is_not_acknowledged_once_the_lease_is_over(self):
        own = (Condition(AcknowledgedLevel.FLUSHED, lambda _, on_done: on_done(None)),)
        told = []
        fenced(own, lambda: False)[0].when(1, told.append)
        fenced(own, lambda: True)[0].when(1, told.append)
        assert [None if one is None else one.row.name for one in told] == [
            "REPLICATION_UNCONFIRMED",
            None,
        ]
