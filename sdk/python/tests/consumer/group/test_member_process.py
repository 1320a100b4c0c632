"""A member of a group as a program of its own: what it says, and how it ends when it is told to."""

import asyncio
import itertools
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager, suppress

import pytest

from ariane_sdk import ClusterClient, Message, Producer, QueueReader

_numbers = itertools.count(1)

COROUTINES = """
import asyncio, sys
from ariane_sdk import PushConsumer

async def listen(messages):
    print("got", flush=True)
    await asyncio.sleep({work_s})
    {then}
    print("done", flush=True)

async def main():
    consumer = PushConsumer(
        sys.argv[1], group=sys.argv[2], subscriptions={{sys.argv[2]: "*"}}, listener=listen,
        start="earliest",
    )
    async with consumer:
        await consumer.run_until_stopped()
    print("ended", flush=True)

asyncio.run(main())
"""

THREADS = """
import sys, time
from ariane_sdk.sync import PushConsumer

def listen(messages):
    print("got", flush=True)
    time.sleep({work_s})
    {then}
    print("done", flush=True)

with PushConsumer(
    sys.argv[1], group=sys.argv[2], subscriptions={{sys.argv[2]: "*"}}, listener=listen,
    start="earliest",
) as consumer:
    consumer.run_until_stopped()
print("ended", flush=True)
"""


@pytest.fixture
async def topic(cluster):
    name = f"member-process-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name)
    return name


@asynccontextmanager
async def member(cluster, topic, program):
    """A process that consumes a topic, with the topic as group; killed in the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cluster.name_servers, topic, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(90):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", [COROUTINES, THREADS], ids=["coroutines", "threads"])
async def test_a_signal_lets_a_member_finish_and_return(cluster, topic, program, number):
    async with Producer(cluster.name_servers) as producer:
        sent = await producer.send(Message(topic, b"x"))
    async with member(cluster, topic, program.format(work_s=0.5, then="pass")) as process:
        assert await process.stdout.readline() == b"got\n"
        process.send_signal(number)
        said, complained = await process.communicate()
    assert (process.returncode, said, complained) == (0, b"done\nended\n", b"")
    async with QueueReader(cluster.name_servers) as reader:
        assert (await reader.stored_offsets(topic, topic))[sent.message_queue] == 1


@pytest.mark.parametrize("program", [COROUTINES, THREADS], ids=["coroutines", "threads"])
async def test_a_second_signal_waits_for_nothing(cluster, topic, program):
    async with Producer(cluster.name_servers) as producer:
        await producer.send(Message(topic, b"x"))
    async with member(cluster, topic, program.format(work_s=60, then="pass")) as process:
        assert await process.stdout.readline() == b"got\n"
        process.send_signal(signal.SIGTERM)
        while process.returncode is None:
            await asyncio.sleep(0.1)
            # The first may still be on its way; whichever comes second ends the process.
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


@pytest.mark.parametrize("program", [COROUTINES, THREADS], ids=["coroutines", "threads"])
async def test_a_listener_that_fails_is_seen_without_any_configuration_of_logs(
    cluster, topic, program
):
    async with Producer(cluster.name_servers) as producer:
        await producer.send(Message(topic, b"x"))
    raising = program.format(work_s=0, then="raise ValueError('no such account')")
    said = b""
    async with member(cluster, topic, raising) as process:
        while b"ValueError: no such account" not in said:
            line = await process.stderr.readline()
            assert line, said
            said += line
    assert b"the listener failed with 1 of 1 message of" in said
    assert b"Traceback" in said


ON_LOOP_IN_THREADS = COROUTINES.replace("async def listen", "def listen").replace(
    "await asyncio.sleep", "__import__('time').sleep"
)


@pytest.mark.parametrize("program", [ON_LOOP_IN_THREADS, THREADS], ids=["asynchronous", "sync"])
@pytest.mark.parametrize(
    "failure",
    [
        "next(iter(()))",
        "raise type('Odd', (BaseException,), {})",
        "raise GeneratorExit",
        "raise ValueError(chr(0xd800))",
    ],
)
async def test_no_error_of_a_listener_stops_its_queue(cluster, topic, program, failure):
    async with Producer(cluster.name_servers) as producer:
        sent = await producer.send(Message(topic, b"x"))
        failing = f"if messages[0].queue_offset == 0: {failure}"
        async with member(cluster, topic, program.format(work_s=0, then=failing)) as process:
            assert await process.stdout.readline() == b"got\n"
            await producer.send(Message(topic, b"y"), message_queue=sent.message_queue)
            assert await process.stdout.readline() == b"got\n"
            assert await process.stdout.readline() == b"done\n"
            process.send_signal(signal.SIGTERM)
            said, complained = await process.communicate()
    assert (process.returncode, said[-6:]) == (0, b"ended\n")
    assert b"the listener failed with 1 of 1 message of" in complained
    async with QueueReader(cluster.name_servers) as reader:
        assert (await reader.stored_offsets(topic, topic))[sent.message_queue] == 2
