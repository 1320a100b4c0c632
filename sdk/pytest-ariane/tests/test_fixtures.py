"""What the fixtures promise to applications."""

import asyncio
import subprocess
import sys

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PushConsumer,
    QueueReader,
    ReceiveConsumer,
)
from ariane_sdk.errors import ArianeError, SendError

IMPATIENT = ProducerSettings(send_timeout_s=0.5)


async def bodies(name_servers, topic):
    found = []
    async with QueueReader(name_servers) as reader:
        for queue, (begin, end) in sorted((await reader.bounds(topic)).items()):
            async for columns in reader.read_range(queue, begin, end):
                found += [bytes(message.body) for message in columns.iter_messages()]
    return sorted(found)


async def send(name_servers, topic, *texts):
    async with Producer(name_servers) as producer:
        for text in texts:
            await producer.send(Message(topic, text))


async def test_messages_go_through(ariane_name_servers, ariane_topic, until):
    received = []

    async def listen(messages):
        received.extend(bytes(message.body) for message in messages)

    async with PushConsumer(
        ariane_name_servers,
        group="billing",
        subscriptions={ariane_topic: "*"},
        listener=listen,
        start="earliest",
    ):
        await send(ariane_name_servers, ariane_topic, b"a", b"b", b"c")
        await until(lambda: sorted(received) == [b"a", b"b", b"c"])


async def test_every_topic_is_its_own(ariane_name_servers, ariane_topic, make_ariane_topic):
    other = make_ariane_topic(queue_count=2, fifo=True)
    assert other != ariane_topic
    async with ClusterClient(ariane_name_servers) as cluster:
        assert len((await cluster.route(ariane_topic)).write_queues) == 4
        assert (await cluster.route(other)).queue_order == "broker-a:2"


async def test_a_lost_reply_is_stored_once(ariane_name_servers, ariane_topic, ariane_faults):
    ariane_faults.lose_reply("AppendRecords")
    await send(ariane_name_servers, ariane_topic, b"once")
    assert ariane_faults.pending == 0
    assert await bodies(ariane_name_servers, ariane_topic) == [b"once"]


async def test_a_refusal_is_tried_again(ariane_name_servers, ariane_topic, ariane_faults):
    ariane_faults.refuse("AppendRecords", times=2)
    await send(ariane_name_servers, ariane_topic, b"later")
    assert ariane_faults.pending == 0
    assert await bodies(ariane_name_servers, ariane_topic) == [b"later"]


async def test_a_refusal_for_good_is_told(ariane_name_servers, ariane_topic, ariane_faults):
    ariane_faults.refuse("AppendRecords", times=1000)
    async with Producer(ariane_name_servers, settings=IMPATIENT) as producer:
        with pytest.raises(ArianeError):
            await producer.send(Message(ariane_topic, b"never"))
    ariane_faults.clear()
    assert await bodies(ariane_name_servers, ariane_topic) == []


def test_a_call_that_no_rule_can_name_is_refused(ariane_faults):
    with pytest.raises(ValueError, match="did you mean 'AppendRecords'"):
        ariane_faults.refuse("AppendRecord")
    for act in (ariane_faults.refuse, ariane_faults.lose_reply):
        with pytest.raises(ValueError, match="no RPC of the broker"):
            act("Append")
    with pytest.raises(ValueError, match="1 call or more"):
        ariane_faults.delay("AppendRecords", 1.0, times=0)


async def test_a_delay_runs_into_a_deadline(ariane_name_servers, ariane_topic, ariane_faults):
    settings = ProducerSettings(call_timeout_s=1.0, send_timeout_s=60.0)
    async with Producer(ariane_name_servers, settings=settings) as producer:
        await producer.send(Message(ariane_topic, b"in time"))
        ariane_faults.delay("AppendRecords", 30)
        with pytest.raises(SendError) as caught:
            await producer.send(Message(ariane_topic, b"late"), timeout_s=0.3)
        assert caught.value.outcome_unknown


@pytest.mark.parametrize("rule", ["refuse", "lose_reply"])
async def test_pulls_that_fail_are_made_again(
    ariane_name_servers, ariane_topic, ariane_faults, rule
):
    await send(ariane_name_servers, ariane_topic, b"a", b"b", b"c")
    getattr(ariane_faults, rule)("PullRecords", times=2)
    found = []
    async with PullConsumer(
        ariane_name_servers, group="puller", subscriptions={ariane_topic: "*"}, start="earliest"
    ) as consumer:
        while len(found) < 3:
            found += [message.body for message in await consumer.poll()]
    assert sorted(found) == [b"a", b"b", b"c"]
    assert ariane_faults.pending == 0


@pytest.mark.parametrize("end", ["kill_broker", "cut_power"])
async def test_the_broker_ends_and_comes_back(
    ariane_cluster, ariane_name_servers, ariane_topic, ariane_faults, ariane_clock, until, end
):
    await send(ariane_name_servers, ariane_topic, b"before")
    address = ariane_cluster.broker_address
    if end == "cut_power":
        await until_flushed(ariane_cluster, ariane_clock, until)
    getattr(ariane_faults, end)()
    assert not ariane_cluster.broker_runs
    ariane_faults.start_broker()
    assert ariane_cluster.broker_address == address
    await send(ariane_name_servers, ariane_topic, b"after")
    assert await bodies(ariane_name_servers, ariane_topic) == [b"after", b"before"]


async def until_flushed(cluster, clock, until):
    store = cluster._broker._life.rooms.log.store

    def flushed():
        clock.advance(1)
        return store.flushed_offset == store.max_offset

    await until(flushed)


async def test_unflushed_messages_may_be_lost_with_the_power(
    ariane_cluster, ariane_name_servers, ariane_topic, ariane_faults
):
    """Some seed loses it: the disk is a model, and not a file that nothing happens to."""
    for seed in range(40):
        await send(ariane_name_servers, ariane_topic, b"%d" % seed)
        ariane_faults.cut_power(seed)
        ariane_faults.start_broker()
        if b"%d" % seed not in await bodies(ariane_name_servers, ariane_topic):
            return
    pytest.fail("nothing is ever lost")


async def test_a_full_disk_is_an_error_to_senders(ariane_name_servers, ariane_topic, ariane_faults):
    async with Producer(ariane_name_servers, settings=IMPATIENT) as producer:
        await producer.send(Message(ariane_topic, b"before"))
        ariane_faults.fill_disk()
        with pytest.raises(ArianeError):
            await producer.send(Message(ariane_topic, b"full"))
        ariane_faults.free_disk()
        await producer.send(Message(ariane_topic, b"after"))
    assert await bodies(ariane_name_servers, ariane_topic) == [b"after", b"before"]


async def test_timers_of_the_broker_are_driven(ariane_cluster, ariane_clock, until):
    """Consumer offsets are saved every five seconds; here at once."""
    saves = []
    saved_offsets = ariane_cluster._broker._life.rooms.state.saved_offsets
    saved = saved_offsets.save

    async def save():
        saves.append(ariane_clock.monotonic())
        await saved()

    [loop] = [each for each in ariane_cluster._broker._life.loops if each.name == "save-offsets"]
    loop._work = save
    begin = ariane_clock.monotonic()
    ariane_clock.advance(5)
    await until(lambda: saves)
    # By itself it would be five seconds later.
    assert saves[0] - begin < 5 + 4.5
    with pytest.raises(ValueError, match="back"):
        ariane_clock.advance(-1)


def test_faults_end_with_their_test(pytester, monkeypatch):
    pytester.makepyfile(
        """
        import pytest
        from ariane_sdk.sync import Message, Producer

        def test_breaks(ariane_faults, ariane_cluster):
            ariane_faults.refuse("AppendRecords", times=1000)
            ariane_faults.fill_disk()
            ariane_faults.kill_broker()

        def test_works(ariane_name_servers, ariane_topic):
            with Producer(ariane_name_servers) as producer:
                producer.send(Message(ariane_topic, b"well"))
        """
    )
    outcome = pytester.runpytest_subprocess("-p", "no:asyncio", "-W", "error")
    outcome.assert_outcomes(passed=2)


async def test_a_disk_fills_up_while_the_broker_starts(ariane_faults, ariane_cluster, monkeypatch):
    """What waits has begun to do so only after the clock was moved: as if it had not been."""
    steps = []
    advance = ariane_cluster.clock.advance

    def advance_later(seconds):
        steps.append(seconds)
        if len(steps) > 1:
            advance(seconds)

    monkeypatch.setattr(ariane_cluster.clock, "advance", advance_later)
    await asyncio.to_thread(ariane_faults.fill_disk)
    # Once is enough where the machine is so slow that the broker first looks only now.
    assert len(steps) in {1, 2}
    await asyncio.to_thread(ariane_faults.free_disk)


def test_the_readme_runs_as_it_stands(pytester, request):
    readme = (request.path.parents[1] / "README.md").read_text()
    pytester.makepyfile(readme.split("```python\n")[1].split("```")[0])
    pytester.runpytest_subprocess("-p", "no:asyncio", "-W", "error").assert_outcomes(passed=2)


def test_nothing_is_loaded_before_a_test_asks_for_it():
    heavy = {"grpc", "numpy", "ariane_broker"}
    asks = f"import sys, pytest_ariane.plugin; print({heavy} & set(sys.modules))"
    said = subprocess.run((sys.executable, "-c", asks), capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


async def test_receipts_expire_by_the_clock(ariane_name_servers, ariane_topic, ariane_clock):
    await send(ariane_name_servers, ariane_topic, b"a")
    async with ReceiveConsumer(
        ariane_name_servers, group="receivers", subscriptions={ariane_topic: "*"}, invisible_s=600
    ) as consumer:
        (first,) = await consumer.receive_batch(timeout_s=60)
        assert first.attempts == 0
        ariane_clock.advance(601)
        (again,) = await consumer.receive_batch(timeout_s=60)
        assert (again.body, again.attempts) == (b"a", 1)
        await consumer.ack(again)
