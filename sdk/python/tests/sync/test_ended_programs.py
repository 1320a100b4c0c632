"""Programs whose clients are ended by a callback, a signal handler or another thread."""

import asyncio
import itertools
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager

import pytest

from ariane_sdk import ClusterClient, Message, Producer, QueueReader

_numbers = itertools.count(1)

EXITS = """
import asyncio, sys
import ariane_sdk
from ariane_sdk import sync

def listen(messages):
    print("got", flush=True)
    sys.exit(3)

async def listen_on_loop(messages):
    listen(messages)

def told(client):
    return {{"group": sys.argv[2], "subscriptions": {{sys.argv[2]: "*"}}, **client}}

def push(package, listener):
    return package.PushConsumer(
        sys.argv[1], **told({{"listener": listener, "start": "earliest"}})
    )

async def main(listener):
    async with push(ariane_sdk, listener) as consumer:
        await consumer.run_until_stopped()

def push_in_threads(listener):
    with push(sync, listener) as consumer:
        consumer.run_until_stopped()

def receive_in_threads(listener):
    with sync.ReceiveConsumer(sys.argv[1], **told({{}})) as consumer:
        consumer.listen(lambda message: listener([message]))

{run}
print("went on", flush=True)
"""

STOPS = """
import sys
import threading
from ariane_sdk.errors import ClientNotRunning
from ariane_sdk.sync import {client}

consumer = {client}(sys.argv[1], group=sys.argv[2], subscriptions={{sys.argv[2]: "*"}})
consumer.start()
{stop}
try:
    {call}
except ClientNotRunning as error:
    print("ended:", error, flush=True)
"""

BY_SIGNAL = """
import signal
signal.signal(signal.SIGTERM, lambda *_: consumer.close())
print("ready", flush=True)
"""

BY_THREAD = """
def close():
    sys.stdin.readline()
    consumer.close()
threading.Thread(target=close).start()
print("ready", flush=True)
"""


@pytest.fixture
async def topic(cluster):
    name = f"ended-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name)
    return name


@asynccontextmanager
async def running(cluster, topic, program):
    """A program with name servers and a topic as arguments; killed in the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, cluster.name_servers, topic),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(60):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(
    "run",
    [
        "asyncio.run(main(listen_on_loop))",
        "asyncio.run(main(listen))",
        "push_in_threads(listen)",
        "push_in_threads(listen_on_loop)",
        "receive_in_threads(listen)",
    ],
)
async def test_sys_exit_in_a_listener_ends_the_program_and_no_message_is_done(cluster, topic, run):
    async with Producer(cluster.name_servers) as producer:
        sent = await producer.send(Message(topic, b"x"))
    async with running(cluster, topic, EXITS.format(run=run)) as process:
        said, complained = await process.communicate()
    assert (process.returncode, said) == (3, b"got\n"), complained
    async with QueueReader(cluster.name_servers) as reader:
        assert (await reader.stored_offsets(topic, topic)).get(sent.message_queue, 0) in {0, None}


@pytest.mark.parametrize("stop", [BY_SIGNAL, BY_THREAD], ids=["signal", "thread"])
@pytest.mark.parametrize(
    ("client", "call"),
    [
        ("ReceiveConsumer", "print(list(consumer.receive()))"),
        ("ReceiveConsumer", "consumer.listen(print)"),
        ("ReceiveConsumer", "consumer.receive_batch(timeout_s=3600)"),
        ("PullConsumer", "consumer.poll(timeout_s=3600)"),
    ],
)
async def test_a_call_that_waits_ends_when_its_client_is_closed(cluster, topic, client, call, stop):
    program = STOPS.format(client=client, call=call, stop=stop)
    async with running(cluster, topic, program) as process:
        assert await process.stdout.readline() == b"ready\n"
        await asyncio.sleep(0.5)  # The call waits by now; if not, it is refused alike.
        if stop is BY_SIGNAL:
            process.send_signal(signal.SIGTERM)
        said, complained = await process.communicate(b"\n")
    assert (process.returncode, said[:7], complained) == (0, b"ended: ", b""), (said, complained)
