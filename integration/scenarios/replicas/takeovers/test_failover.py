"""A broker with a replica, in processes: the primary is killed, and the queue goes on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from datetime import timedelta

import pytest
from replica_group import in_sync, reigning, state_of

from ariane_sdk import AcknowledgedLevel, Message, Producer, ProducerSettings, QueueReader
from ariane_sdk.errors import SendError

PAUSE_S = 0.01  # The brokers need the processor, too.

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")


class Sending:
    """A producer that never stops, and what became of each message."""

    def __init__(self, cluster):
        self.producer = Producer(cluster.name_servers, settings=ProducerSettings(send_timeout_s=60))
        self.stored = {}
        self.unknown = set()
        self.failed = 0
        self._number = 0
        self._grown = asyncio.Event()
        self._tasks = []

    async def __aenter__(self):
        await self.producer.start()
        self._tasks = [asyncio.create_task(self._run()) for _ in range(8)]
        return self

    async def __aexit__(self, *_):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.producer.close()

    async def _run(self):
        while True:
            self._number += 1
            number = self._number
            self.unknown.add(number)
            try:
                result = await self.producer.send(Message("orders", b"%d" % number))
            except SendError as error:
                self.failed += 1
                if not error.outcome_unknown:
                    self.unknown.discard(number)
                continue
            self.unknown.discard(number)
            self.stored[number] = result
            self._grown.set()
            await asyncio.sleep(PAUSE_S)

    async def more(self, count):
        wanted = len(self.stored) + count
        async with asyncio.timeout(60):
            while len(self.stored) < wanted:
                self._grown.clear()
                await self._grown.wait()


async def read_all(cluster, reader=None):
    """The number in each body, by its place."""
    if reader is None:
        async with QueueReader(cluster.name_servers) as primary_reader:
            return await read_all(cluster, primary_reader)
    found = {}
    for queue, (begin, end) in (await reader.bounds("orders")).items():
        async for columns in reader.read_range(queue, begin, end):
            for message in map(columns.message, range(len(columns))):
                found[queue.queue_id, message.queue_offset] = int(message.body)
    return found


def check(sending, found):
    """What was acknowledged is where it was said to be, and nothing came in twice."""
    for number, result in sending.stored.items():
        assert found[result.message_queue.queue_id, result.queue_offset] == number
    numbers = list(found.values())
    assert len(set(numbers)) == len(numbers), "stored twice"
    assert set(numbers) <= set(sending.stored) | sending.unknown


async def ask_for_copies(cluster):
    """With two brokers in sync two copies are promised, and three refused."""
    quick = ProducerSettings(send_timeout_s=3)
    async with Producer(cluster.name_servers, group="copiers", settings=quick) as producer:
        result = await producer.send(Message("copies", b"1"), in_sync_min=2)
        assert result.acknowledged_level is AcknowledgedLevel.REPLICATED
        half = await producer.send_half(Message("copies", b"half"), in_sync_min=2)
        ended = await producer.commit(half)
        assert ended.acknowledged_level is AcknowledgedLevel.REPLICATED
        message = Message("copies", b"2")
        # At once, because each is tried again until its time is over.
        for refused in await asyncio.gather(
            producer.send(message, in_sync_min=3),
            producer.send_half(message, in_sync_min=3),
            return_exceptions=True,
        ):
            assert isinstance(refused, SendError)
            assert (refused.reason, refused.outcome_unknown) == ("TOO_FEW_IN_SYNC", False)


@pytest.mark.slow
async def test_a_replica_takes_over_and_the_old_primary_follows_it(local_cluster, ariane):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with Sending(cluster) as sending:
            await sending.more(100)
            assert list(sending.stored.values())[-1].acknowledged_level is (
                AcknowledgedLevel.REPLICATED
            )
            first.kill()
            await first.wait()
            await in_sync(second, 1)
            await sending.more(50)
            await first.start()
            found = await in_sync(second, 0, 1)
            assert [start.epoch for start in found.epochs] == [1, 2]
            await sending.more(50)
        status, rows = await ariane(cluster, "broker", "ha", "status", "broker-a")
        assert status == 0
        shown = [(row["id"], row["role"], row["in_sync"], row["trouble"]) for row in rows]
        assert shown == [(0, "replica", True, ""), (1, "primary", True, "")]
        for word, broker_id in (("remove", "0"), ("remove", "1"), ("elect", "7")):
            orders = ("broker", "ha", word, "broker-a", "--id", broker_id, "--yes")
            assert (await ariane(cluster, *orders))[0] != 0
        await ask_for_copies(cluster)
        found = await read_all(cluster)
    check(sending, found)


async def told(ariane, cluster):
    """What is shown of the set, once somebody finds it."""
    async with asyncio.timeout(60):
        while True:
            _, rows = await ariane(cluster, "broker", "ha", "status", "broker-a")
            if rows:
                return rows
            await asyncio.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_set_that_nobody_can_lead_is_found_and_mended(local_cluster, ariane):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second], [name_server] = (
            cluster.brokers,
            cluster.replicas,
            cluster.name_server_processes,
        )
        await in_sync(first, 0, 1)
        async with Producer(cluster.name_servers) as producer:
            for number in range(20):
                await producer.send(Message("orders", b"%d" % number))
            second.kill()
            await second.wait()
            await in_sync(first, 0)
            await producer.send(Message("orders", b"20"))  # The first one alone has it.
        first.kill()
        await first.wait()
        await second.start()
        await name_server.restart()  # It knows nobody any more.
        rows = await told(ariane, cluster)
        assert [(row["id"], row["role"], row["in_sync"]) for row in rows] == [
            (0, "away", True),
            (1, "replica", False),
        ]
        assert rows[1]["trouble"] == (
            "there is no primary: a broker that is in sync is awaited (of 0)"
        )
        assert (await ariane(cluster, "doctor"))[0] != 0
        order = ("broker", "ha", "elect", "broker-a", "--id", "1", "--unclean", "--yes")
        assert (await ariane(cluster, *order))[0] == 0
        await in_sync(second, 1)
        async with Producer(cluster.name_servers) as producer:
            await producer.send(Message("orders", b"21"))
        await first.start()
        await in_sync(second, 0, 1)
        assert sorted((await read_all(cluster)).values()) == [*range(20), 21]
        status, findings = await ariane(cluster, "doctor")
        assert status == 0, findings


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flush_mode", ["async", "sync"])
async def test_primaries_that_are_killed_one_after_another_lose_nothing(local_cluster, flush_mode):
    async with local_cluster(*QUICK, replicas=2, flush_mode=flush_mode) as cluster:
        brokers = [*cluster.brokers, *cluster.replicas]
        await in_sync(brokers[0], 0, 1, 2)
        async with Sending(cluster) as sending:
            for _ in range(4):
                await sending.more(100)
                primary = await reigning(brokers)
                primary.kill()
                await primary.wait()
                await sending.more(100)
                await primary.start()
                await in_sync(await reigning(brokers), 0, 1, 2)
        found = await read_all(cluster)
    check(sending, found)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_replica_lets_read_while_there_is_no_primary(local_cluster, until):
    # Nobody is elected for a while.
    async with local_cluster("--primary-lease-s", "20", replicas=1) as cluster:
        first = cluster.brokers[0]
        await in_sync(first, 0, 1)
        async with Sending(cluster) as sending:
            await sending.more(100)
        before = await read_all(cluster)
        # A heartbeat later the replica knows that all of it is confirmed.
        replica = cluster.replicas[0]
        end = (await state_of(first)).confirmed_commit_log_offset

        async def told():
            return (await state_of(replica)).confirmed_commit_log_offset >= end

        await until(told)
        async with QueueReader(cluster.name_servers, replicas=True, call_timeout_s=5) as reader:
            assert len(await reader.bounds("orders")) > 0
            first.kill()
            await first.wait()
            assert await read_all(cluster, reader) == before
    check(sending, before)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_primary_that_was_paused_finds_itself_fenced(local_cluster):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with Sending(cluster) as sending:
            await sending.more(100)
            os.kill(first.pid, signal.SIGSTOP)
            await in_sync(second, 1)
            await sending.more(50)
            os.kill(first.pid, signal.SIGCONT)
            await in_sync(second, 0, 1)
            await sending.more(50)
        found = await read_all(cluster)
    check(sending, found)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_transaction_waits_for_copies_where_the_broker_does_not(local_cluster):
    """Under ``local`` nobody waits for the replica, but those who demand it."""
    flags = ("--acknowledge", "local", *QUICK[:2], "--replica-behind-s-max", "60")
    async with local_cluster(*flags, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with Producer(cluster.name_servers, group="cashiers") as producer:
            plain = await producer.send_half(Message("orders", b"1"))
            copied = plain._replace(in_sync_min=2)
            os.kill(second.pid, signal.SIGSTOP)
            storing = asyncio.create_task(
                producer.send_half(Message("orders", b"2"), in_sync_min=2)
            )
            ending = asyncio.create_task(producer.commit(copied))
            await asyncio.wait([storing, ending], timeout=1)
            assert not storing.done()
            assert not ending.done()
            os.kill(second.pid, signal.SIGCONT)
            assert (await ending).acknowledged_level is AcknowledgedLevel.REPLICATED
            first.kill()
            await first.wait()
            await in_sync(second, 1)
            await producer.commit((await storing)._replace(in_sync_min=None))
        found = await read_all(cluster)
    assert sorted(found.values()) == [1, 2]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_role_is_handed_over_without_a_failed_send(local_cluster, ariane):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with Sending(cluster) as sending:
            for there, broker_id in ((second, 1), (first, 0)):
                await sending.more(50)
                to = ("--to", str(broker_id), "--yes")
                status, done = await ariane(cluster, "broker", "ha", "switchover", "broker-a", *to)
                assert (status, done["primary_id"]) == (0, None)
                await in_sync(there, 0, 1)
                await sending.more(50)
            assert sending.failed == 0
        found = await read_all(cluster)
    check(sending, found)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_brokers_are_upgraded_one_by_one_without_a_failed_send(local_cluster, ariane):
    """As replica-sets.md says: replicas are restarted, the role handed over, the last restarted."""
    async with local_cluster(*QUICK, replicas=2) as cluster:
        first, *others = [*cluster.brokers, *cluster.replicas]
        await in_sync(first, 0, 1, 2)
        async with Sending(cluster) as sending:
            for replica in others:
                await sending.more(50)
                await replica.restart()
                await in_sync(first, 0, 1, 2)
            to = ("--to", "1", "--yes")
            status, _ = await ariane(cluster, "broker", "ha", "switchover", "broker-a", *to)
            assert status == 0
            await in_sync(others[0], 0, 1, 2)
            await first.restart()
            await in_sync(others[0], 0, 1, 2)
            await sending.more(50)
            assert sending.failed == 0
        found = await read_all(cluster)
    check(sending, found)


def begins_of(process, broker_id):
    """From where on a replica was handed the log of a primary, each time that it attached."""
    lines = map(json.loads, process.log_path.read_text().splitlines())
    return [
        line["begin_commit_log_offset"]
        for line in lines
        if line["event"] == "replica_attached" and line["broker_id"] == broker_id
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_copied", [False, True], ids=["empty", "copied"])
async def test_a_lost_replica_begins_anew_and_can_take_over(local_cluster, tmp_path, is_copied):
    """As replica-sets.md says: with an empty folder, or with that of a replica that is stopped."""
    async with local_cluster(*QUICK, replicas=2) as cluster:
        first, second, third = *cluster.brokers, *cluster.replicas
        await in_sync(first, 0, 1, 2)
        async with Sending(cluster) as sending:
            await sending.more(300)
            for replica in (second, third):
                await replica.stop()
            mine, others = (tmp_path / replica.name for replica in (third, second))
            shutil.rmtree(mine)
            if is_copied:
                shutil.copytree(others, mine)
            await sending.more(50)
            await third.start()
            await in_sync(first, 0, 2)
            begin = begins_of(first, 2)[-1]
            assert begin > 0 if is_copied else begin == 0
            first.kill()
            await first.wait()
            await in_sync(third, 2)
            await sending.more(50)
        found = await read_all(cluster)
    check(sending, found)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_new_primary_delivers_parked_messages_and_ends_transactions(local_cluster, until):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        long = ProducerSettings(send_timeout_s=60)
        async with Producer(cluster.name_servers, group="cashiers", settings=long) as producer:
            await producer.send(Message("orders", b"1"))
            for number in range(2, 12):
                await producer.send(Message("orders", b"%d" % number, delay=timedelta(seconds=8)))
            kept = await producer.send_half(Message("orders", b"12"))
            dropped = await producer.send_half(Message("orders", b"13"))
            first.kill()
            await first.wait()
            await in_sync(second, 1)
            await producer.rollback(dropped)
            await producer.commit(kept)

            async def all_there():
                return len(await read_all(cluster)) >= 12

            await until(all_there, seconds=60)
            await first.start()
            await in_sync(second, 0, 1)
            # Whatever came twice would do so now.
            await asyncio.sleep(2)
        found = await read_all(cluster)
    assert sorted(found.values()) == list(range(1, 13))
