"""Batches over several brokers: one decides, all publish, whoever dies, and wherever it moves."""

import asyncio
import zlib
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from ariane.broker.v1 import sink_service_pb2 as sink_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_broker.errors.transactions import peer_silent
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.naming.broker_addresses import BrokerAddresses, NobodyKnows
from ariane_broker.rpc.sink_calls import SinkCalls
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage.errors import StoreFull

NAMES = ("a", "b", "c")
SILENT = "silent"


async def until(holds):
    """Wait until a question is answered with yes."""
    async with asyncio.timeout(20):
        while not await holds():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


class Brokers:
    """Three brokers of one cluster, of which any may be stopped and started."""

    def __init__(self, running, folder):
        self._running = running
        self._folder = folder
        self._stacks = {}
        self.addresses = {}
        self.probes = {}

    async def start(self, *names):
        for name in names:
            stack = AsyncExitStack()
            running = self._running(broker_name=name, store_path=self._folder / name)
            probe = await stack.enter_async_context(running)
            self._stacks[name], self.probes[name] = stack, probe
            self.addresses[name] = str(probe.address)

    async def stop(self, name, address=SILENT):
        """Stop a broker; name servers still know it, or no more (None)."""
        self.addresses[name] = address
        await self._stacks.pop(name).aclose()

    async def close(self):
        for name in list(self._stacks):
            await self.stop(name)

    def __getitem__(self, name):
        return self.probes[name]

    async def note(self, broker, home, move_count=0, given_up=""):
        """Have a broker note a home of the sink; what it answers."""
        note = sink_pb.SinkHome(
            broker_name=home,
            move_count=move_count,
            broker_names=NAMES,
            given_up_broker_name=given_up,
        )
        request = sink_pb.NoteSinkHomeRequest(query_id="q", topic="orders", home=note)
        return (await self[broker].sinks.NoteSinkHome(request)).home

    async def stage(self, name, *bodies, batch=0, token="t"):  # noqa: S107 - no password
        """Stage at a broker; the attempt as a commit names it."""
        encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
        for body in bodies:
            encoder.add(body, born_timestamp_ms=1_700_000_000_000)
        block = encoder.finish()
        request = transaction_pb.StageBatchRecordsRequest(
            query_id="q",
            batch_id=batch,
            attempt_token=token,
            topic="orders",
            record_sizes=block.sizes.astype("<i4").tobytes(),
            tag_codes=block.tag_codes.astype("<i4").tobytes(),
            key_counts=block.key_counts.tobytes(),
            key_hashes=block.key_hashes.astype("<i4").tobytes(),
            records_crc32=block.crc32,
            queue_ids=np.zeros(len(bodies), "<i4").tobytes(),
            records=bytes(block.records),
        )
        answer = await self[name].transactions.StageBatchRecords(request)
        return transaction_pb.BatchAttempt(
            broker_name=name,
            attempt_token=token,
            record_count=answer.record_count,
            checksum=zlib.crc32(block.crc32.to_bytes(4, "little")),
        )

    async def stage_all(self, *names, batch=0, token="t"):  # noqa: S107 - no password
        """Stage one record at each broker, which says where and of which batch it is."""
        return [
            await self.stage(name, f"{name}{batch}".encode(), batch=batch, token=token)
            for name in names
        ]

    async def commit(self, home, attempts, batch=0):
        request = transaction_pb.CommitBatchRequest(
            query_id="q",
            batch_id=batch,
            attempts=attempts,
            record_count=sum(each.record_count for each in attempts),
            content_sum=batch + 7,
        )
        return await self[home].transactions.CommitBatch(request)

    async def sink(self, name):
        [sink] = (await self[name].sinks.ListSinks(sink_pb.ListSinksRequest())).sinks
        return sink

    async def visible(self, *names):
        return [b"".join(await self[name].bodies("orders")).decode() for name in names]

    async def until_visible(self, **wanted):
        async def is_there():
            return await self.visible(*wanted) == list(wanted.values())

        await until(is_there)


@pytest.fixture
async def brokers(running, tmp_path, monkeypatch):
    """Brokers a, b and c with a topic and a sink, whose home is a."""
    group = Brokers(running, tmp_path)

    async def address_of(self, broker_name):
        address = group.addresses[broker_name]
        if address == SILENT:
            raise NobodyKnows(SILENT)
        return address

    monkeypatch.setattr(BrokerAddresses, "address_of", address_of)
    monkeypatch.setattr("ariane_broker.spark_batches.batch_publication.RETRY_SECONDS", 0.02)
    monkeypatch.setattr("ariane_broker.spark_batches.room.UPKEEP_SECONDS", 0.02)
    await group.start(*NAMES)
    for name in NAMES:
        await group[name].create_topic("orders", 1)
        await group.note(name, "a")
    yield group
    await group.close()


@pytest.fixture
def failing(monkeypatch):
    """Fail calls of a method to some brokers for a while, before or after they arrive."""

    @asynccontextmanager
    async def fail(method, *names, late=False):
        call = getattr(SinkCalls, method)

        async def failed(self, broker_name, *given, **options):
            if broker_name not in names:
                return await call(self, broker_name, *given, **options)
            if late:
                await call(self, broker_name, *given, **options)
            raise peer_silent(broker_name, "cut")

        with monkeypatch.context() as patch:
            patch.setattr(SinkCalls, method, failed)
            yield

    return fail


async def test_a_batch_over_three_brokers_is_visible_once_and_only_when_it_is_decided(
    brokers, refused
):
    lost = await brokers.stage_all("a", "b", "c", token="lost")
    attempts = await brokers.stage_all("a", "b", "c")
    assert await brokers.visible(*NAMES) == ["", "", ""]
    [other, *_] = attempts
    failure = await refused(brokers.commit("b", [other]))
    assert (failure.reason, failure.metadata["home"]) == ("SINK_MOVED", "a")

    assert not (await brokers.commit("a", attempts)).duplicate

    assert await brokers.visible(*NAMES) == ["a0", "b0", "c0"]
    for again in (attempts, lost, []):
        request = transaction_pb.CommitBatchRequest(
            query_id="q", attempts=again, record_count=3, content_sum=7
        )
        assert (await brokers["a"].transactions.CommitBatch(request)).duplicate
    # A batch of which one broker has nothing is known there all the same.
    await brokers.commit("a", await brokers.stage_all("b", batch=1), batch=1)
    assert await brokers.visible(*NAMES) == ["a0", "b0b1", "c0"]
    for name in NAMES:
        sink = await brokers.sink(name)
        assert (sink.batch_id, sink.staged_record_count, sink.publishing) == (1, 0, False)
        assert not sink.HasField("prepared_batch_id")
        assert not sink.unnotified_broker_names


async def test_a_home_that_dies_before_its_decision_leaves_nothing_behind(
    brokers, refused, monkeypatch
):
    first = await brokers.stage_all("a", "b")
    append = BrokerLog.append_records

    def full(self, topic, records):
        if b'"commit"' in records[0].body:
            raise StoreFull(Path("store"), "for a test")
        return append(self, topic, records)

    with monkeypatch.context() as patch:
        patch.setattr(BrokerLog, "append_records", full)
        assert (await refused(brokers.commit("a", first))).reason == "STORE_FULL"

    async def is_released():
        return not (await brokers.sink("b")).HasField("prepared_batch_id")

    await until(is_released)  # b asks, and keeps its part for nobody any more.
    assert await brokers.visible("a", "b") == ["", ""]
    # What is staged is good for the same batch, and so are other attempts.
    again = await brokers.stage_all("b", token="again")
    await brokers.commit("a", [first[0], *again])
    assert await brokers.visible("a", "b") == ["a0", "b0"]


async def test_a_prepared_batch_is_not_dropped_without_a_decision_of_its_home(
    brokers, refused, failing
):
    attempts = await brokers.stage_all("a", "b")
    async with failing("publish", "b", "c"), AsyncExitStack() as cut:
        await cut.enter_async_context(failing("fate_of", "a"))
        # The home has decided, and nobody else knows: nothing may be visible yet.
        assert (await refused(brokers.commit("a", attempts))).reason == "PEER_UNREACHABLE"
        abort = transaction_pb.AbortBatchRequest(query_id="q", batch_id=0)
        await brokers.stop("a")
        assert not (await brokers["b"].transactions.AbortBatch(abort)).committed
        sink = await brokers.sink("b")
        assert (sink.prepared_batch_id, sink.staged_record_count) == (0, 1)
        assert await brokers.visible("b") == [""]
        # Here the driver dies for ever. The home comes back, and b asks.
        await brokers.start("a")
        await cut.aclose()
        await brokers.until_visible(b="b0")
        assert await brokers.visible("a") == [""]
    await brokers.until_visible(a="a0", b="b0")
    assert (await brokers.commit("a", attempts)).duplicate


async def test_a_broker_that_is_away_gets_its_part_later_in_order_and_delays_nobody(
    brokers, failing
):
    attempts = await brokers.stage_all("a", "b")
    async with failing("publish", "b"), failing("fate_of", "a"):
        assert not (await brokers.commit("a", attempts)).duplicate
        assert (await brokers.sink("a")).unnotified_broker_names == ["b"]
        await brokers.stop("b")
        await brokers.commit("a", await brokers.stage_all("a", "c", batch=1), batch=1)
        assert await brokers.visible("a", "c") == ["a0a1", "c1"]
        await brokers.start("b")
        assert await brokers.visible("b") == [""]
        later = await brokers.stage_all("a", "b", batch=2)
        assert (await brokers.sink("b")).staged_record_count == 2
    await brokers.commit("a", later, batch=2)
    await brokers.until_visible(a="a0a1a2", b="b0b2", c="c1")

    async def is_told():
        return not (await brokers.sink("a")).unnotified_broker_names

    await until(is_told)


async def test_a_home_whose_decision_nobody_heard_is_replaced_and_comes_back(
    brokers, refused, failing
):
    attempts = await brokers.stage_all("a", "b")
    async with failing("publish", "b", "c"), failing("fate_of", "a"):
        await refused(brokers.commit("a", attempts))
        await brokers.stop("a")

        note = await brokers.note("c", "c", move_count=1, given_up="a")

    assert (note.broker_name, note.HasField("committed_batch_id")) == ("c", False)
    anew = await brokers.stage_all("b", "c", token="anew")
    assert not (await brokers.commit("c", anew)).duplicate
    assert await brokers.visible("b", "c") == ["b0", "c0"]
    # The old home takes its decision back, and decides nothing more.
    await brokers.start("a")

    async def is_undone():
        return not (await brokers.sink("a")).publishing

    await until(is_undone)
    late = await brokers.stage_all("a", batch=1)
    failure = await refused(brokers.commit("a", late, batch=1))
    assert (failure.reason, failure.metadata["home"]) == ("SINK_MOVED", "c")
    # It is a broker of the sink as any other.
    await brokers.commit("c", late, batch=1)
    await brokers.until_visible(a="a1", b="b0", c="c0")


async def test_a_home_that_is_lost_after_somebody_heard_is_followed(brokers, refused, failing):
    attempts = await brokers.stage_all("a", "b", "c")
    async with AsyncExitStack() as cut:
        for method, name in (("publish", "b"), ("fate_of", "a")):
            await cut.enter_async_context(failing(method, name))
        await cut.enter_async_context(failing("publish", "c", late=True))
        await refused(brokers.commit("a", attempts))
        await brokers.until_visible(c="c0")
        await brokers.stop("a")
        assert await brokers.visible("b") == [""]

        # The new home did not hear of it, and learns it from c.
        note = await brokers.note("b", "b", move_count=1, given_up="a")

    assert note.committed_batch_id == 0
    await brokers.until_visible(b="b0", c="c0")
    assert (await brokers.commit("b", attempts)).duplicate
    await brokers.start("a")  # With a decision that counts, and a part that nobody has seen.
    await brokers.until_visible(a="a0", b="b0", c="c0")
    await brokers.commit("b", await brokers.stage_all("a", "b", batch=1), batch=1)
    await brokers.until_visible(a="a0a1", b="b0b1", c="c0")


async def test_no_broker_becomes_the_home_before_all_others_are_asked(brokers, refused):
    await brokers.commit("a", await brokers.stage_all("a", "b"))
    await brokers.stop("a")
    failure = await refused(brokers.note("c", "c", move_count=1))
    assert (failure.reason, failure.metadata["broker_name"]) == ("PEER_UNREACHABLE", "a")
    await brokers.stop("b")
    failure = await refused(brokers.note("c", "c", move_count=1, given_up="a"))
    assert (failure.reason, failure.metadata["broker_name"]) == ("PEER_UNREACHABLE", "b")
    assert (await brokers.sink("c")).home.broker_name == "a"
    await brokers.start("a")
    # b gone for good, too, as far as name servers know: it may still know of a later batch.
    brokers.addresses["b"] = None
    assert (await refused(brokers.note("c", "c", move_count=1))).reason == "PEER_UNREACHABLE"
    await brokers.start("b")
    note = await brokers.note("c", "c", move_count=1)
    assert (note.broker_name, note.committed_batch_id) == ("c", 0)
    assert (await brokers.note("a", "a")).broker_name == "c"


async def test_a_home_whose_brokers_are_all_gone_goes_on_alone(brokers, refused):
    attempts = await brokers.stage_all("a")
    await brokers.stop("b")
    await brokers.stop("c")
    # They may be cut off with another home.
    assert (await refused(brokers.commit("a", attempts))).reason == "PEER_UNREACHABLE"
    assert await brokers.visible("a") == [""]
    brokers.addresses |= {"b": None, "c": None}
    await brokers.until_visible(a="a0")
    await brokers.commit("a", await brokers.stage_all("a", batch=1), batch=1)
    assert await brokers.visible("a") == ["a0a1"]


@pytest.mark.parametrize("snapshot", [True, False])
async def test_agreements_outlive_a_restart(brokers, refused, failing, tmp_path, snapshot):
    attempts = await brokers.stage_all("a", "b", "c")
    async with failing("publish", "b", "c"), failing("fate_of", "a"):
        await refused(brokers.commit("a", attempts))
        for name in NAMES:
            await brokers.stop(name)
            if not snapshot:
                for path in (tmp_path / name / "config").glob("batchTransactions.json*"):
                    path.unlink()
        await brokers.start(*NAMES)
        assert (await brokers.sink("a")).unnotified_broker_names == ["b", "c"]
        for name in ("b", "c"):
            assert (await brokers.sink(name)).prepared_batch_id == 0
        assert await brokers.visible(*NAMES) == ["", "", ""]
    await brokers.until_visible(a="a0", b="b0", c="c0")


async def test_a_call_to_prepare_that_comes_late_takes_nothing_from_a_later_one(brokers, tmp_path):
    attempts = await brokers.stage_all("b")
    home = sink_pb.SinkHome(broker_name="a", broker_names=NAMES)
    # The home repeats a commit while the first call to prepare is still under way; nobody asks it,
    # because it knows of neither here.
    brokers.addresses["a"] = SILENT
    for decision_id in (2, 1):
        await brokers["b"].sinks.PrepareBatch(
            sink_pb.PrepareBatchRequest(
                query_id="q", home=home, decision_id=decision_id, attempts=attempts
            )
        )
    await brokers.stop("b")
    for path in (tmp_path / "b" / "config").glob("batchTransactions.json*"):
        path.unlink()
    await brokers.start("b")
    await brokers["b"].sinks.PublishBatch(
        sink_pb.PublishBatchRequest(
            query_id="q",
            home=home,
            batch=sink_pb.CommittedBatch(record_count=1, content_sum=7, decision_id=2),
            until_visible=True,
        )
    )
    assert await brokers.visible("b") == ["b0"]


async def test_a_home_learns_of_each_broker_from_whichever_writer(brokers):
    for names in (("a", "b", "c", "d"), ("a", "b", "e")):
        home = sink_pb.SinkHome(broker_name="a", broker_names=names)
        request = sink_pb.NoteSinkHomeRequest(query_id="q", topic="orders", home=home)
        await brokers["a"].sinks.NoteSinkHome(request)
    assert (await brokers.note("a", "a")).broker_names == ["a", "b", "c", "d", "e"]


async def test_a_decision_that_is_undone_leaves_that_of_the_next_home(brokers, refused, failing):
    attempts = await brokers.stage_all("a", "b")
    async with failing("publish", "b", "c"), failing("fate_of", "a"):
        await refused(brokers.commit("a", attempts))
        await brokers.stop("a")
        await brokers.note("c", "c", move_count=1, given_up="a")
    async with failing("fate_of", "c"):
        await brokers.start("a")
        # Of all others, a is the one that hears what c has decided.
        anew = await brokers.stage_all("c", token="anew")
        async with failing("publish", "b"):
            await brokers.commit("c", anew)
    assert await brokers.visible("c") == ["c0"]

    async def is_undone():
        return not (await brokers.sink("a")).publishing

    await until(is_undone)
    sink = await brokers.sink("a")
    assert sink.HasField("batch_id")
    assert sink.batch_id == 0


async def test_a_sink_is_not_deleted_where_its_home_may_have_committed_a_part(
    brokers, refused, failing
):
    attempts = await brokers.stage_all("a", "b")
    delete = sink_pb.DeleteSinkRequest(query_id="q")
    async with failing("fate_of", "a"), failing("publish", "b"):
        await brokers.commit("a", attempts)
        failure = await refused(brokers["b"].sinks.DeleteSink(delete))
        assert failure.reason == "PEER_UNREACHABLE"
    await brokers.until_visible(a="a0", b="b0")
    # Nor does the home forget what it has to tell, unless the other one is gone for good.
    later = await brokers.stage_all("b", batch=1)
    async with failing("publish", "b"), failing("fate_of", "a"):
        await brokers.commit("a", later, batch=1)
        failure = await refused(brokers["a"].sinks.DeleteSink(delete))
        assert (failure.reason, failure.metadata["broker_name"]) == ("PEER_UNREACHABLE", "b")
    async with failing("fate_of", "a"):
        brokers.addresses["b"] = None
        await brokers["a"].sinks.DeleteSink(delete)
    assert (await brokers["b"].sinks.DeleteSink(delete)).dropped_record_count == 1


async def test_a_home_that_lost_its_last_seconds_does_not_decide_again_what_others_know(
    brokers, refused, monkeypatch
):
    for name in ("b", "c"):  # The decision as a told it, before its power failed.
        await brokers[name].sinks.PublishBatch(
            sink_pb.PublishBatchRequest(
                query_id="q",
                home=sink_pb.SinkHome(broker_name="a", broker_names=NAMES),
                batch=sink_pb.CommittedBatch(record_count=1, content_sum=7, decision_id=5),
            )
        )
    failure = await refused(brokers.commit("a", await brokers.stage_all("a")))
    assert failure.reason == "TRANSACTION_DECIDED"
    # Whoever moves the sink has all know it.
    assert (await brokers.note("b", "b", move_count=1)).committed_batch_id == 0
    again = transaction_pb.CommitBatchRequest(query_id="q", record_count=1, content_sum=7)
    assert (await brokers["b"].transactions.CommitBatch(again)).duplicate
