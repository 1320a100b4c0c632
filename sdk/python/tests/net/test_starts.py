"""Starts that are cancelled anywhere, that fail, or that a close comes in between."""

import asyncio
import gc
import itertools
import os
import signal
import threading
import time

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from ariane_sdk import (
    ClusterClient,
    DeadLetters,
    Message,
    Producer,
    PullConsumer,
    PullSettings,
    PushConsumer,
    QueueReader,
    TransactionOutcome,
    sync,
)
from ariane_sdk.errors import ClientNotRunning, NameServersUnreachable
from ariane_sdk.sql import Outbox, OutboxRelay, create_tables

NOBODY = "127.0.0.1:1"
STEPS_MAX = 100


class Interrupted:
    """An awaitable that cancels its task while it waits for the n-th time."""

    def __init__(self, coroutine, count):
        self._coroutine = coroutine
        self._count = count

    def __await__(self):
        steps = self._coroutine.__await__()
        error = None
        for number in itertools.count(1):
            try:
                waited_for = steps.throw(error) if error else steps.send(None)
            except StopIteration as end:
                return end.value
            if number == self._count:
                asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
            error = None
            try:
                yield waited_for
            except BaseException as caught:  # noqa: BLE001 - it is handed on.
                error = caught


async def listen(messages):
    pass


def listen_in_thread(messages):
    pass


def broadcasting(name_servers, tmp_path):
    settings = PullSettings(local_offsets_path=tmp_path)
    return PullConsumer(
        name_servers,
        group="starts-all",
        subscriptions={"starts": "*"},
        model="broadcasting",
        settings=settings,
    )


async def unknown(check):
    return TransactionOutcome.UNKNOWN


CLIENTS = {
    "producer": lambda name_servers, _: Producer(name_servers),
    "transactions": lambda name_servers, _: Producer(
        name_servers, group="starts", transaction_checker=unknown
    ),
    "push": lambda name_servers, _: PushConsumer(
        name_servers, group="starts-push", subscriptions={"starts": "*"}, listener=listen_in_thread
    ),
    "ordered": lambda name_servers, _: PushConsumer(
        name_servers,
        group="starts-ordered",
        subscriptions={"starts": "*"},
        listener=listen,
        ordered=True,
    ),
    "pull": lambda name_servers, _: PullConsumer(
        name_servers, group="starts-pull", subscriptions={"starts": "*"}
    ),
    "by hand": lambda name_servers, _: PullConsumer(name_servers, group="starts-hand"),
    "broadcasting": broadcasting,
    "cluster": lambda name_servers, _: ClusterClient(name_servers),
    "reader": lambda name_servers, _: QueueReader(name_servers),
    "dead letters": lambda name_servers, _: DeadLetters(name_servers),
}


async def end(client):
    await client.close()


def own_tasks():
    """Names of what runs beside the test; gRPC's own tasks have none of ours."""
    names = (task.get_name() for task in asyncio.all_tasks())
    return [name for name in names if name.startswith("ariane-")]


def listener_threads():
    return [each for each in threading.enumerate() if each.name.startswith("ariane-listener")]


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - threads set no event.
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def _topic(cluster):
    with sync.ClusterClient(cluster.name_servers) as client:
        client.create_topic("starts", queue_count=1)


@pytest.mark.usefixtures("_topic")
@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_start_that_is_cancelled_anywhere_leaves_nothing(cluster, tmp_path, kind):
    for count in range(1, STEPS_MAX):
        client = CLIENTS[kind](cluster.name_servers, tmp_path)
        try:
            await Interrupted(client.start(), count)
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
            await end(client)
            await end(client)
            assert not own_tasks()
            assert not listener_threads()
            with pytest.raises(ClientNotRunning, match="started once"):
                await client.start()
        else:
            # It has fewer steps than that.
            await end(client)
            break
    else:
        raise AssertionError(f"a start has more than {STEPS_MAX} steps")


@pytest.mark.usefixtures("_topic")
@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_client_that_is_ended_while_it_starts_does_not_run(cluster, tmp_path, kind):
    for count in (1, 2, 3, 5, 10, 30):
        client = CLIENTS[kind](cluster.name_servers, tmp_path)
        starting = asyncio.create_task(client.start())
        for _ in range(count):
            await asyncio.sleep(0)
        was_quick = starting.done()
        await end(client)
        if was_quick:
            break
        # Not a cancellation: nobody has cancelled the task. Nor a broker's silence.
        with pytest.raises(ClientNotRunning, match="while it started"):
            async with asyncio.timeout(60):
                await starting
        await end(client)
        assert not own_tasks()
        assert not listener_threads()


@pytest.mark.parametrize("kind", ["push", "ordered", "pull", "broadcasting"])
async def test_a_start_that_fails_leaves_nothing(tmp_path, kind):
    client = CLIENTS[kind](NOBODY, tmp_path)
    with pytest.raises(NameServersUnreachable):
        await client.start()
    await end(client)
    assert not own_tasks()
    assert not listener_threads()
    with pytest.raises(ClientNotRunning, match="started once"):
        await client.start()


@pytest.mark.usefixtures("_topic")
async def test_a_listener_keeps_its_threads_for_the_consumer_that_runs(cluster, tmp_path):
    consumer = CLIENTS["push"](cluster.name_servers, tmp_path)
    async with Producer(cluster.name_servers) as producer, consumer:
        with pytest.raises(ClientNotRunning, match="started once"):
            await consumer.start()
        await consumer.wait_assigned()
        await producer.send(Message("starts", b"for the threads"))
        await until(listener_threads)
    await until(lambda: not listener_threads())


async def test_a_producer_that_never_ran_has_nothing_to_flush():
    producer = Producer(NOBODY)
    with pytest.raises(ClientNotRunning, match="not running"):
        await producer.flush()


@pytest.fixture
def relay(tmp_path):
    """A relay of an outbox, and what to dispose of in the end."""
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        create_tables(connection)
    yield OutboxRelay(Outbox("shop"), sessionmaker(engine), NOBODY)
    engine.dispose()


async def test_a_relay_whose_start_was_cancelled_may_be_started_again(relay):
    with pytest.raises(asyncio.CancelledError):
        await Interrupted(relay.start(), 1)
    asyncio.current_task().uncancel()
    await relay.start()
    assert "ariane-outbox-claims" in own_tasks()
    await relay.close()
    assert not own_tasks()


async def test_of_two_starts_of_a_relay_one_is_refused(relay):
    outcomes = await asyncio.gather(relay.start(), relay.start(), return_exceptions=True)
    assert sorted(map(type, outcomes), key=str) == [type(None), ClientNotRunning]
    await relay.close()
    assert not own_tasks()


@pytest.mark.parametrize("step_count", [0, 1])
async def test_a_relay_that_was_closed_says_that_it_does_not_relay(relay, step_count):
    starting = asyncio.create_task(relay.start())
    for _ in range(step_count):
        await asyncio.sleep(0)
    await relay.close()
    with pytest.raises(ClientNotRunning, match="make another one"):
        await starting
    assert not own_tasks()


def test_a_blocking_start_that_is_interrupted_is_cleared_away(fragile_cluster, caplog):
    """Ctrl-C while a broker is frozen: the start ends, and what it began does so, too."""
    cluster = fragile_cluster
    with sync.ClusterClient(cluster.name_servers) as client:
        client.create_topic("starts")
    consumer = sync.PullConsumer(
        cluster.name_servers, group="starts", subscriptions={"starts": "*"}
    )
    main = threading.main_thread().ident

    def interrupt(consumer):
        # Trying to connect to what is frozen takes longer than this.
        while consumer._loop_thread is None:
            time.sleep(0.01)
        time.sleep(0.2)
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt, args=(consumer,))
    os.kill(cluster.brokers[0].pid, signal.SIGSTOP)
    try:
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.start()
    finally:
        os.kill(cluster.brokers[0].pid, signal.SIGCONT)
    interrupting.join()
    consumer.close()
    del consumer
    gc.collect()
    assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]
