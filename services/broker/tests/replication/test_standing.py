"""A broker's standing in its set while it is not primary."""

from __future__ import annotations

import errno

import pytest

from ariane_broker.following.standing import Member, OwnLog, OwnStore, Standing
from ariane_broker.replication.replica_set import ReplicaSet
from services.broker.tests.replication.kept_marks import Kept, mark_of


class TestStanding:
    @pytest.fixture
    def standing(self, rows):
        self.now, self.settled = 10.0, []

        async def settle():
            self.settled.append(True)

        def standing(broker_id, *, epoch=0, address=None, set_id="s", log=None, mark=None, **what):
            log = OwnLog(set_id if epoch else "", epoch, 0, 900, confirmed=0)._replace(
                **(log or {})
            )
            store = OwnStore(
                log=lambda: log,
                mark=mark_of(mark or Kept(), broker_id),
                is_new=what.pop("is_new", not epoch),
                may_lack_end=what.pop("may_lack_end", False),
                has_agreed=what.pop("has_agreed", lambda: True),
                settle=settle,
            )
            return Standing(
                rows[broker_id],
                Member(broker_id, address or f"h:{broker_id}"),
                store,
                draw_set_id=lambda: "drawn",
                monotonic=lambda: self.now,
                **{"begins_anew": False, "lease_s": 5.0, **what},
            )

        return standing

    async def test_only_the_broker_with_id_0_begins_a_set(self, standing):
        assert await standing(1).turn() is None
        first = standing(0)
        assert await first.turn() is None
        elected = await first.turn()
        assert (elected.replica_set.epoch, elected.replica_set.primary_id) == (1, 0)

    async def test_a_log_with_epochs_begins_no_set_unless_it_is_told_to(self, rows, standing):
        """The database is lost, or another one: other brokers may have more."""
        for broker_id in (1, 0):
            waiting = standing(broker_id, epoch=3)
            assert await waiting.turn() is None
            assert "its log is of epoch 3" in waiting.trouble
            assert not waiting.may_follow
        assert await rows[0].read() is None
        chosen = standing(1, epoch=3, begins_anew=True)
        assert await chosen.turn() is None
        elected = await chosen.turn()
        assert (elected.replica_set.primary_id, elected.replica_set.in_sync) == (1, {1})
        assert elected.replica_set.epoch > 100  # Whoever is away may have seen epochs after 3.
        assert await waiting.turn() is None
        assert waiting.trouble == ""

    async def test_a_set_begins_although_replicas_are_there_before_its_first_primary(
        self, standing
    ):
        first = standing(0)
        await first.turn()
        await standing(1).turn()
        elected = await first.turn()
        assert elected.replica_set.addresses == {0: "h:0", 1: "h:1"}
        assert elected.replica_set.epoch == 1

    async def in_sync(self, row, broker_ids, *, lease_s=0.0):
        begun = ReplicaSet().begun(0, "h:0", set_id="s")
        both = begun.at(1, "h:1")
        elected = both.elected(0, 1, lease_s=lease_s)
        for one in (begun, both, elected):
            await row.change(one)
        if broker_ids != elected.in_sync:
            await row.change(elected.with_in_sync(frozenset(broker_ids)))

    async def test_who_is_wanted_goes_first_and_others_when_it_does_not_come(self, rows, standing):
        await self.in_sync(rows[0], {0, 1})
        row = await rows[0].read()
        await rows[0].change(row.resigned(0))  # And dies before it comes back.
        other = standing(1, epoch=1)
        assert await other.turn() is None
        self.now += 5.2
        assert await other.turn() is None
        self.now += 0.1
        assert (await other.turn()).replica_set.primary_id == 1

    async def test_who_is_not_wanted_waits_for_a_second_lease_of_a_dead_primary(
        self, rows, standing
    ):
        await self.in_sync(rows[0], {0, 1})
        await rows[0].change((await rows[0].read()).wanting(0, unclean=False))
        other = standing(1, epoch=1)
        for seconds, is_elected in ((0, False), (5.3, False), (5.1, False), (0.2, True)):
            self.now += seconds
            assert (await other.turn() is not None) == is_elected

    @pytest.mark.parametrize("is_new", [False, True])
    async def test_a_primary_that_lives_keeps_its_place_from_another_of_its_id(
        self, rows, standing, is_new
    ):
        await self.in_sync(rows[0], {0, 1})
        namesake = standing(0, epoch=0 if is_new else 1, address="h:7")
        for _ in range(3):
            assert await namesake.turn() is None
            assert "a primary with this broker's id is at h:0" in namesake.trouble
            self.now += 5.0
            await rows[1].change((await rows[1].read()).renewed(0))
        assert (await rows[1].read()).addresses[0] == "h:0"
        assert await namesake.turn() is None
        self.now += 5.3  # It was the one that has moved.
        assert await namesake.turn() is None
        assert namesake.trouble == ""
        elected = await namesake.turn()
        row = await rows[1].read()
        assert row.addresses[0] == "h:7"
        assert row.primary_id == (None if is_new else 0)
        assert (elected is None) == is_new

    async def test_of_two_replicas_with_one_id_the_later_one_stays(self, rows, standing):
        await self.in_sync(rows[0], {0, 1})
        file, copy = Kept(), Kept()
        replica = standing(1, epoch=1, mark=file)
        await replica.turn()
        assert replica.may_follow
        copy.state = file.state
        copied = standing(1, epoch=1, address="h:7", mark=copy)
        for one in (copied, replica, copied, replica):
            assert await one.turn() is None
        assert "a process with this broker's id has come later, at h:7" in replica.trouble
        assert (await rows[0].read()).rivals == {1: "h:1"}
        assert not replica.may_follow
        assert copied.may_follow
        self.now += 10.0  # The primary is silent.
        assert await replica.turn() is None
        assert (await copied.turn()).replica_set.addresses[1] == "h:7"

    @pytest.mark.parametrize("own_s", [1.0, 60.0])
    async def test_the_lease_of_the_primary_is_waited_for_not_the_own(self, rows, standing, own_s):
        await self.in_sync(rows[0], {0, 1}, lease_s=5.0)
        other = standing(1, epoch=1, lease_s=own_s)
        for seconds, is_elected in ((0, False), (5.2, False), (0.1, True)):
            self.now += seconds
            elected = await other.turn()
            assert (elected is not None) == is_elected
        assert elected.replica_set.lease_s == own_s

    @pytest.mark.parametrize("address", [None, "h:7"])
    async def test_a_new_store_is_not_filled_while_the_set_counts_on_it(
        self, rows, standing, address, monkeypatch
    ):
        """Else it would soon look like the log that the set counts on."""
        await self.in_sync(rows[0], {0, 1})
        replaced = standing(1, address=address)
        with monkeypatch.context() as patched:
            if address is None:  # The primary gave a sign of life meanwhile.

                async def lost(_):
                    return False

                patched.setattr(rows[1], "change", lost)
            await replaced.turn()
        assert (await rows[0].read()).in_sync == {0, 1}
        assert not replaced.may_follow
        await replaced.turn()
        assert (await rows[0].read()).in_sync == {0}
        await replaced.turn()
        assert replaced.may_follow

    @pytest.mark.parametrize("what", [{"epoch": 1, "may_lack_end": True}, {"epoch": 0}])
    async def test_who_may_have_lost_what_others_have_leaves_the_set(self, rows, standing, what):
        await self.in_sync(rows[0], {0, 1})
        assert await standing(0, **what).turn() is None
        assert self.settled == [True] * ("may_lack_end" in what)
        found = await rows[1].read()
        assert (found.primary_id, found.in_sync) == (None, {1})
        elected = await standing(1, epoch=1).turn()
        assert elected.replica_set.primary_id == 1

    async def test_who_is_taken_in_for_what_it_had_before_it_lost_power_leaves_the_set(
        self, rows, standing
    ):
        """The primary has not learnt yet that it began anew, and counts on its last report."""
        await self.in_sync(rows[0], {0})
        back = standing(1, epoch=1, may_lack_end=True, has_agreed=lambda: False)
        await back.turn()
        assert self.settled == []
        await rows[0].change((await rows[0].read()).with_in_sync(frozenset({0, 1})))
        await back.turn()
        assert (await rows[0].read()).in_sync == {0}
        assert self.settled == [True]

    @pytest.mark.parametrize("unclean", [False, True])
    async def test_who_was_out_of_the_set_meanwhile_need_not_leave_it_again(
        self, rows, standing, unclean
    ):
        await self.in_sync(rows[0], {0})
        if unclean:
            await rows[0].change((await rows[0].read()).wanting(1, unclean=True))
        back = standing(1, epoch=1, may_lack_end=True)
        await back.turn()
        assert self.settled == [True]
        if not unclean:  # It has caught up, and is relied on.
            await rows[0].change((await rows[0].read()).with_in_sync(frozenset({0, 1})))
            await back.turn()
            assert back.may_follow
            assert (await rows[0].read()).in_sync == {0, 1}

    async def test_a_store_that_is_new_is_not_elected_before_others_with_logs(self, rows, standing):
        await self.in_sync(rows[0], {0})
        replaced = standing(0)
        for _ in range(3):
            assert await replaced.turn() is None
        assert (await rows[1].read()).epoch == 1
        ordered = (await rows[1].read()).wanting(0, unclean=True)
        await rows[1].change(ordered)
        assert (await replaced.turn()).replica_set.epoch == 2

    @pytest.mark.parametrize("broker_id", [0, 1])
    async def test_a_store_of_another_set_takes_no_part(self, rows, standing, broker_id):
        """Its epochs and offsets look the same: every set begins with epoch 1 at offset 0."""
        await self.in_sync(rows[0], {0, 1})
        before = await rows[0].read()
        stranger = standing(broker_id, epoch=1, set_id="other", address="h:7")
        for self.now in (10.0, 100.0, 200.0):
            assert await stranger.turn() is None
            assert not stranger.may_follow
            assert "belongs to the replica set other, not to s" in stranger.trouble
        assert await rows[0].read() == before

    async def test_a_set_that_begins_anew_keeps_its_id(self, rows, standing):
        """Other brokers with its log come back to it."""
        await standing(1, epoch=3, begins_anew=True).turn()
        assert (await rows[0].read()).set_id == "s"
        back = standing(0, epoch=3)
        await back.turn()
        await back.turn()
        assert back.may_follow

    async def test_a_broker_whose_disk_is_full_leaves_the_set_unless_it_is_the_last(
        self, rows, standing
    ):
        await self.in_sync(rows[0], {0, 1})
        pressed = standing(1, epoch=1, log={"pressure": "its disk is 86% full"})
        await pressed.turn()
        assert (await rows[0].read()).in_sync == {0}
        await pressed.turn()
        assert not pressed.may_follow
        assert pressed.trouble == "its disk is 86% full"
        last = standing(0, epoch=1, log={"pressure": "its disk is 86% full"})
        assert (await last.turn()).replica_set.primary_id == 0

    async def confirmed(self, rows, in_sync):
        await self.in_sync(rows[0], in_sync)
        await rows[0].change((await rows[0].read()).renewed(1000))

    async def test_an_older_store_leaves_the_set_before_it_catches_up(self, rows, standing):
        """Else it would be elected while it lacks what the set has confirmed."""
        await self.confirmed(rows, {0, 1})
        older = standing(1, epoch=1)
        assert not older.may_follow
        await older.turn()
        assert (await rows[0].read()).in_sync == {0}
        await older.turn()
        assert older.may_follow

    @pytest.mark.parametrize("what", [{"is_damaged": True}, {"begin": 8}])
    async def test_a_log_that_misses_records_leaves_the_set_unless_it_is_the_last(
        self, rows, standing, what
    ):
        await self.in_sync(rows[0], {0, 1})
        await standing(1, epoch=1, log=what).turn()
        assert (await rows[0].read()).in_sync == {0}
        last = standing(0, epoch=1, log=what)
        assert await last.turn() is None
        assert (await last.turn()).replica_set.primary_id == 0

    @pytest.mark.parametrize("lost_power", [False, True])
    async def test_an_older_store_of_the_last_one_waits_for_an_order(
        self, rows, standing, lost_power
    ):
        await self.confirmed(rows, {0})
        last = standing(0, epoch=1, may_lack_end=lost_power)
        assert await last.turn() is None
        assert (await last.turn() is not None) is lost_power
        assert ("older than what the set relies on" in last.trouble) is not lost_power

    async def test_a_store_that_was_put_back_leaves_the_set_whatever_the_row_knows_of_its_log(
        self, rows, standing
    ):
        """Both were killed before the row knew what was confirmed last."""
        await self.in_sync(rows[0], {0, 1})
        file = Kept()
        await standing(1, epoch=1, mark=file).turn()
        assert (await rows[0].read()).marks == {1: 1}
        older = Kept()
        older.state = file.state
        await standing(1, epoch=1, mark=file).turn()  # Started again: what it gets is confirmed.
        assert (await rows[0].read()).in_sync == {0, 1}
        self.now += 100.0
        back = standing(1, epoch=1, mark=older)
        assert await back.turn() is None
        assert not back.may_follow
        assert ((found := await rows[0].read()).in_sync, found.marks) == ({0}, {1: 2})
        await back.turn()
        assert back.may_follow
        assert (await rows[0].read()).marks == {1: 3}  # Now this store is the one.
        await rows[0].change((await rows[0].read()).with_in_sync(frozenset({0, 1})))
        await standing(1, epoch=1, mark=file).turn()
        assert (await rows[0].read()).in_sync == {0}

    async def test_a_snapshot_of_a_store_in_use_is_an_earlier_state_a_lease_later(
        self, rows, standing
    ):
        await self.in_sync(rows[0], {0, 1}, lease_s=5.0)
        file, snapshot = Kept(), Kept()
        replica = standing(1, epoch=1, mark=file)
        await replica.turn()
        snapshot.state = file.state
        for seconds in (4.9, 0.2):
            self.now += seconds
            await rows[0].change((await rows[0].read()).renewed(0, mark=7))
            await replica.turn()
        assert (await rows[0].read()).marks == {0: 7, 1: 2}
        await standing(1, epoch=1, mark=snapshot).turn()
        assert (await rows[0].read()).in_sync == {0}

    async def test_the_last_one_that_was_put_back_waits_for_an_order(self, rows, standing):
        await self.in_sync(rows[0], {0})
        older = Kept()
        await standing(0, epoch=1, mark=Kept()).turn()
        last = standing(0, epoch=1, mark=older)
        assert await last.turn() is None
        assert await last.turn() is None
        assert "older than what the set relies on" in last.trouble
        await rows[1].change((await rows[1].read()).wanting(0, unclean=True))
        assert await last.turn() is None
        assert (await last.turn()).replica_set.primary_id == 0

    async def test_nobody_relies_on_a_store_that_cannot_be_marked(self, rows, standing):
        class Full(Kept):
            def save(self, state):
                raise OSError(errno.ENOSPC, "No space left on device")

        await self.in_sync(rows[0], {0, 1})
        full = standing(0, epoch=1, mark=Full())
        assert await full.turn() is None
        assert not full.may_follow
        assert "cannot be written (No space left on device)" in full.trouble
        assert (await rows[0].read()).marks == {}
