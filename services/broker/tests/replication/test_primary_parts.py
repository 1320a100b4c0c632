"""The primary and what it hands out, each alone."""

from __future__ import annotations

import pytest

from ariane_broker.replication.confirmation import Confirmation
from ariane_broker.replication.copies import Copies
from ariane_broker.replication.primary import Hello, Primary, Progress
from ariane_broker.replication.reign import Reign
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_record import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_storage import QueueOffsetOutOfRange, Store, StoreConfig
from ariane_storage.log.epoch_history import EpochStart
from ariane_storage.testing import block_of, small_config


class TestPrimary:
    async def test_it_gives_signs_of_life_while_its_store_is_still_recovered(self, rows, tmp_path):
        one, other = rows
        begun = ReplicaSet().begun(0, "a")
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
        begun = ReplicaSet().begun(0, "a")
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
            store.append_block(block_of("orders", [b"confirmed before"]), 0)
            primary = Primary(
                reign,
                store,
                Copies([0], 0.0, flushed=False, behind_s_max=5.0),
                Confirmation(lambda: True, wait_s_max=1),
                monotonic=lambda: 0.0,
                is_sync_flush=False,
                is_replicated=True,
                in_sync_min=1,
                on_confirmed=lambda: None,
            )
            primary.begin()
            hello = Hello(2, [], 0, 0, store.config.segment_bytes, 2, "c")
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
        appended = store.append_block(encoder.finish(), 0)
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
        hello = Hello(2, epochs, 0, 20, store.config.segment_bytes, known, "c")
        with pytest.raises(ServiceError) as caught:
            primary.follow(hello)
        assert caught.value.row.name == "EPOCH_FENCED"
