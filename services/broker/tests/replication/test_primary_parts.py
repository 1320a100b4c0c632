"""The primary and what it hands out, each alone."""

from __future__ import annotations

import asyncio

import pytest

from ariane_broker.replication.confirmation import Confirmation
from ariane_broker.replication.copies import Copies, Progress
from ariane_broker.replication.primary import Hello, Primary
from ariane_broker.replication.reign import Reign
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.shared_row import RowUnreachable
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_storage import QueueOffsetOutOfRange, Store, StoreConfig
from ariane_storage.copying.log_copy import LogRange
from ariane_storage.log.epoch_history import EpochStart
from ariane_storage.testing import block_of, small_config


class TestPrimary:
    async def test_it_gives_signs_of_life_while_its_store_is_still_recovered(self, rows, tmp_path):
        one, other = rows
        begun = ReplicaSet().begun(0, "a", set_id="s")
        await one.change(begun)
        elected = begun.elected(0, 1)
        await one.change(elected)
        now = 10.0
        reign = Reign(
            one,
            elected,
            0,
            elected_at_s=now,
            lease_s=5.0,
            monotonic=lambda: now,
            on_deposed=lambda: None,
        )
        primary = Primary(
            reign,
            Store(tmp_path / "not open yet"),
            Copies([], now, flushed=False, behind_s_max=5.0),
            Confirmation(lambda: True, wait_s_max=1),
            monotonic=lambda: now,
            is_sync_flush=False,
            is_replicated=True,
            in_sync_min=2,
            on_confirmed=lambda: None,
        )
        now = 14.0
        await primary.turn()
        now = 18.0
        assert reign.holds
        assert (await other.read()).renewals == elected.renewals + 1
        with pytest.raises(ServiceError) as caught:
            primary.check()
        assert caught.value.row.name == "TOO_FEW_IN_SYNC"
        now = 20.0
        with pytest.raises(ServiceError) as caught:
            primary.check()
        assert caught.value.row.name == "BROKER_NOT_PRIMARY"

    async def test_who_lacks_what_primaries_before_confirmed_is_not_taken_in(self, rows, tmp_path):
        """Also while nobody has told yet how far those in sync are."""
        one, _ = rows
        begun = ReplicaSet().begun(0, "a", set_id="s")
        first = begun.elected(0, 1)
        both = first.with_in_sync(frozenset({0, 1}))
        second = both.elected(1, 2)
        row = second.with_in_sync(frozenset({0, 1}))
        for each in (begun, first, both, second, row):
            assert await one.change(each)
        reign = Reign(
            one,
            row,
            1,
            elected_at_s=0.0,
            lease_s=5.0,
            monotonic=lambda: 0.0,
            on_deposed=lambda: None,
        )
        with Store.open(tmp_path / "store", small_config()) as store:
            store.append(block_of("orders", [b"confirmed before"]), 0)
            primary = Primary(
                reign,
                store,
                Copies([0], -60.0, flushed=False, behind_s_max=5.0),  # Recovery took a minute.
                Confirmation(lambda: True, wait_s_max=1),
                monotonic=lambda: 0.0,
                is_sync_flush=False,
                is_replicated=True,
                in_sync_min=1,
                on_confirmed=lambda: None,
            )
            primary.begin()
            hello = Hello(2, [], 0, 0, store.config.segment_bytes, 2, "c", "")
            feed, copy = primary.follow(hello)
            await primary.turn()
            assert reign.replica_set.in_sync == {0, 1}
            end = store.max_offset
            primary.progressed(copy, feed, Progress(end, end, end, 0))
            await primary.turn()
            assert reign.replica_set.in_sync == {0, 1, 2}


class TestWhatIsHandedOut:
    """A new primary hands out what is confirmed; the rest once the others in sync have it, too."""

    @pytest.fixture
    def begun(self, tmp_path):
        store = Store(tmp_path / "store", StoreConfig(segment_bytes=1 << 20))
        store.recover(("127.0.0.1", 1))
        encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
        for body in (b"confirmed", b"perhaps"):
            encoder.add(body, born_timestamp_ms=1)
        appended = store.append(encoder.finish(), 0)
        edge = int(appended.commit_log_offsets[1])
        told = []

        def begun(in_sync, known):
            elected = ReplicaSet(epoch=2, primary_id=1, in_sync=frozenset({1, *in_sync}))
            reign = Reign(
                None,
                elected,
                1,
                elected_at_s=0.0,
                lease_s=5.0,
                monotonic=lambda: 0.0,
                on_deposed=lambda: None,
            )
            primary = Primary(
                reign,
                store,
                Copies(in_sync, 0.0, flushed=False, behind_s_max=5.0),
                Confirmation(lambda: True, wait_s_max=1),
                monotonic=lambda: 0.0,
                is_sync_flush=False,
                is_replicated=True,
                in_sync_min=1,
                on_confirmed=lambda: None,
                known_confirmed=edge if known else 0,
                on_hidden=told.append,
            )
            primary.begin()
            return primary, store, told

        yield begun
        store.close()

    def read(self, store, queue_offset):
        return store.read_queue("orders", 0, queue_offset, max_count=9, max_bytes=1 << 16)

    def test_what_others_in_sync_may_lack_waits_for_them(self, begun):
        primary, store, told = begun({2}, known=True)
        end = store.max_offset
        assert told == [end]
        assert primary.hides_end
        assert len(self.read(store, 0).sizes) == 1
        # Whoever was given the second one by the primary before waits, and is not set back.
        assert len(self.read(store, 2).sizes) == 0
        with pytest.raises(QueueOffsetOutOfRange):
            self.read(store, 3)
        copy = primary.copies.attached(2, "b", 0.0)
        copy.progressed(end, end, end=end, now_s=0.0)
        primary.advance()
        assert not primary.hides_end
        assert len(self.read(store, 0).sizes) == 2

    def test_a_broker_that_nobody_told_anything_hands_out_nothing_while_others_may_lack_it(
        self, begun
    ):
        """As one that is elected right after its start, with a store that says nothing either."""
        primary, store, told = begun({2}, known=False)
        assert told == [store.max_offset]
        assert len(self.read(store, 0).sizes) == 0
        primary.copies.wait_for(())  # It did not come, and was taken out.
        primary.advance()
        assert len(self.read(store, 0).sizes) == 2

    @pytest.mark.parametrize(
        ("lost", "missing"),
        [(0, ()), (8, ()), (0, (LogRange(0, 8),))],
        ids=["all", "less", "damage"],
    )
    async def test_one_in_sync_that_comes_back_with_less_than_it_confirmed_leaves_the_set(
        self, begun, lost, missing
    ):
        primary, store, _ = begun({2}, known=True)
        primary.reign.row = WillingRow()
        end, epochs = store.max_offset, store.copying.epochs
        hello = Hello(2, epochs, 0, end, store.config.segment_bytes, 2, "c", "")
        feed, copy = primary.follow(hello)
        primary.progressed(copy, feed, Progress(end, end, end, primary.state_version))
        await primary.turn()
        assert primary.confirmation.confirmed == end
        primary.follow(hello._replace(end=end - lost, missing=missing))
        await primary.turn()
        assert primary.reign.replica_set.in_sync == ({1} if lost or missing else {1, 2})

    @pytest.mark.parametrize("known", [False, True])
    def test_alone_it_hands_out_all(self, begun, known):
        _, store, told = begun((), known)
        assert told == []
        assert len(self.read(store, 0).sizes) == 2

    @pytest.mark.parametrize(("known", "newest"), [(5, 1), (1, 5)])
    def test_a_log_of_a_later_primary_is_not_cut(self, begun, known, newest):
        """Also where the row knows nothing of that one: it may come from an old copy."""
        primary, store, _ = begun({2}, known=False)
        epochs = [EpochStart(newest, 0)]
        hello = Hello(2, epochs, 0, 20, store.config.segment_bytes, known, "c", "")
        with pytest.raises(ServiceError) as caught:
            primary.follow(hello)
        assert caught.value.row.name == "EPOCH_FENCED"


class WillingRow:
    async def change(self, _):
        return True


class TestWaiting:
    """What all in sync must have before a primary goes, or says that topics have changed."""

    @pytest.fixture
    def primary(self, tmp_path):
        self.now = 0.0
        reign = Reign(
            WillingRow(),
            ReplicaSet(epoch=1, primary_id=0, in_sync=frozenset({0, 1, 2})),
            0,
            elected_at_s=0.0,
            lease_s=100.0,
            monotonic=lambda: self.now,
            on_deposed=lambda: None,
        )
        with Store.open(tmp_path / "store", small_config()) as store:
            primary = Primary(
                reign,
                store,
                Copies([1, 2], 0.0, flushed=True, behind_s_max=5.0),
                Confirmation(lambda: reign.holds, wait_s_max=60),
                monotonic=lambda: self.now,
                is_sync_flush=True,
                is_replicated=True,
                in_sync_min=1,
                on_confirmed=lambda: None,
            )
            primary.begin()
            store.append(block_of("orders", [b"sent"]), 0)
            store.flush()
            self.end = store.max_offset
            self.copies = [primary.copies.attached(one, "", 0.0) for one in (1, 2)]
            self.saved = self.farewells = 0
            yield primary

    async def save_state(self):
        self.saved += 1

    async def say_farewell(self, primary):
        primary.check()
        assert self.saved == 0, "offsets that are stored now would not be saved"
        self.farewells += 1

    async def handing_over(self, primary):
        """The role is being handed to broker 1, which may have seen what there is."""
        task = asyncio.create_task(
            primary.hand_over(
                1,
                grace_s=10.0,
                save_state=self.save_state,
                say_farewell=lambda: self.say_farewell(primary),
            )
        )
        for _ in range(10):
            await asyncio.sleep(0)
        return task

    async def test_senders_are_answered_and_the_state_is_copied_before_it_goes(self, primary):
        told = []
        primary.confirmation.when_confirmed(self.end, told.append)
        for copy in self.copies:  # Their flushes are under way.
            copy.progressed(self.end, 0, end=self.end, now_s=0.0)
        handing = await self.handing_over(primary)
        for copy in self.copies:
            copy.progressed(self.end, self.end, end=self.end, now_s=0.0)
        primary.advance()
        assert told == [None]
        assert self.saved == 1
        self.copies[0].state_version = primary.state_version
        await asyncio.wait([handing], timeout=0.05)
        assert not handing.done()
        self.copies[1].state_version = primary.state_version
        assert await handing
        assert not primary.reign.holds

    @pytest.mark.parametrize("closed_s", [0.0, 50.0])
    async def test_a_closed_one_leaves_the_lease_to_its_heirs(self, primary, closed_s, monkeypatch):
        """It sends no log any more, so that all others look late, also if it closes in a turn."""
        before = primary.reign.replica_set

        async def close(_):
            self.now = 50.0
            primary.close()
            return True

        if closed_s:
            monkeypatch.setattr(primary.reign.row, "change", close)
            await primary.turn()
        else:
            await close(None)
        await primary.turn()
        after = primary.reign.replica_set
        assert after.in_sync == {0, 1, 2}
        assert after.renewals - before.renewals == (1 if closed_s else 0)

    async def test_a_closed_one_accepts_nothing_after_a_handing_over_that_failed(self, primary):
        handing = await self.handing_over(primary)
        primary.close()
        self.now = 11.0
        assert not await handing
        with pytest.raises(ServiceError) as caught:
            primary.check()
        assert caught.value.row.name == "BROKER_NOT_PRIMARY"

    @pytest.mark.parametrize("has_log", [False, True])
    async def test_after_a_while_it_goes_to_who_has_the_log(self, primary, has_log):
        self.copies[0].progressed(self.end if has_log else 0, 0, end=self.end, now_s=0.0)
        handing = await self.handing_over(primary)
        self.now = 11.0
        assert await handing == has_log
        assert primary.reign.holds != has_log
        if not has_log:
            primary.check()

    async def test_messages_are_taken_until_the_next_primary_follows(self, primary):
        """The former primary begins to follow a moment after it has handed the role over."""
        self.copies[0].attached = False
        handing = await self.handing_over(primary)
        primary.check()
        assert not handing.done()
        start = [EpochStart(1, 0)]
        hello = Hello(1, start, 0, self.end, primary.store.config.segment_bytes, 1, "b", "")
        feed, copy = primary.follow(hello)
        at_end = Progress(self.end, self.end, self.end, 0)
        primary.progressed(copy, feed, at_end)
        self.copies[1].progressed(self.end, self.end, end=self.end, now_s=0.0)
        primary.advance()
        async with asyncio.timeout(20):
            while primary._is_open:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
            # Its connection may break just now.
            feed, copy = primary.follow(hello)
            for one in self.copies:
                one.state_version = primary.state_version
            primary.progressed(copy, feed, at_end._replace(state_version=primary.state_version))
            assert await handing

    async def test_one_that_never_follows_costs_no_message(self, primary):
        self.copies[0].attached = False
        handing = await self.handing_over(primary)
        primary.check()
        self.now = 11.0
        assert not await handing
        assert self.saved == self.farewells == 0, "it has not been tried"
        primary.check()

    async def test_members_store_offsets_once_the_next_one_follows(self, primary):
        """What they finish in the wait for it would come again."""
        self.copies[0].attached = False
        handing = await self.handing_over(primary)
        assert self.farewells == 0
        self.now = 9.0
        for copy in self.copies:
            copy.attached = True
            copy.progressed(self.end, self.end, end=self.end, now_s=self.now)
        primary.advance()
        async with asyncio.timeout(10):
            while not self.saved:  # noqa: ASYNC110 - there is nothing to be told by.
                await asyncio.sleep(0.001)
        for copy in self.copies:
            copy.state_version = primary.state_version
        async with asyncio.timeout(10):
            assert await handing
        assert self.farewells == 1

    async def test_offsets_that_cannot_be_saved_hold_nobody_up(self, primary):
        async def fail():
            raise OSError("disk")

        self.copies[0].progressed(self.end, 0, end=self.end, now_s=0.0)
        handing = asyncio.create_task(primary.hand_over(1, grace_s=0.0, save_state=fail))
        assert await handing

    async def test_a_change_of_topics_is_known_to_all_in_sync(self, primary):
        primary.state_changed()
        waiting = asyncio.create_task(primary.state_copied())
        await asyncio.sleep(0)
        self.copies[0].state_version = primary.state_version
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
        self.copies[1].state_version = primary.state_version
        await waiting

    async def test_nobody_waits_for_a_closed_one_until_topics_are_copied(self, primary):
        primary.state_changed()
        primary.close()
        with pytest.raises(ServiceError) as caught:
            await primary.state_copied()
        assert caught.value.row.name == "REPLICATION_UNCONFIRMED"

    @pytest.mark.parametrize(
        ("later_s", "reason"), [(61.0, "REPLICATION_UNCONFIRMED"), (101.0, "BROKER_NOT_PRIMARY")]
    )
    async def test_a_change_that_replicas_lack_is_not_acknowledged(self, primary, later_s, reason):
        primary.state_changed()
        waiting = asyncio.create_task(primary.state_copied())
        await asyncio.sleep(0)
        self.now = later_s
        with pytest.raises(ServiceError) as caught:
            await waiting
        assert caught.value.row.name == reason

    async def test_the_begin_of_the_log_is_announced_before_anything_is_deleted(
        self, primary, monkeypatch
    ):
        assert await primary.may_begin(8192)
        assert primary.reign.replica_set.begin == 8192

        async def away(_):
            raise RowUnreachable("away")

        monkeypatch.setattr(primary.reign.row, "change", away)
        assert not await primary.may_begin(16384)
        assert await primary.may_begin(8192)

    def followed(self, primary):
        return primary.follow(Hello(1, [], 0, 0, small_config().segment_bytes, 1, "b", ""))

    @pytest.mark.parametrize("what", ["progress", "in sync", "close"])
    async def test_who_waits_for_copies_looks_again_at_once(self, primary, what):
        feed, copy = self.followed(primary)
        waiting = asyncio.create_task(primary.copies.wait_for_state(120.0))
        await asyncio.sleep(0)
        match what:
            case "progress":
                primary.progressed(copy, feed, Progress(0, 0, 0, 1))
            case "in sync":
                primary.copies.wait_for({1})
            case "close":
                primary.close()
        await asyncio.wait_for(waiting, 20)

    async def test_who_gets_the_log_but_no_topics_is_late(self, primary):
        feed, copy = self.followed(primary)
        primary.state_changed()
        for self.now in range(8):
            primary.progressed(copy, feed, Progress(self.end, self.end, self.end, 0))
        assert copy.broker_id in primary.copies.late(self.now)
