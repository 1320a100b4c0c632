import concurrent.futures
import gc
import inspect
import itertools
import os
import signal
import subprocess
import sys
import threading

import pytest

import ariane_sdk
from ariane_sdk import errors, sync
from ariane_sdk.sync import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueReader,
)

_numbers = itertools.count()


@pytest.fixture
def topic(cluster):
    name = f"sync-{next(_numbers)}"
    with ClusterClient(cluster.name_servers) as client:
        client.create_topic(name)
    return name


def test_send_and_consume(cluster, topic):
    got, done = [], threading.Event()

    def listen(messages):
        got.extend(message.body for message in messages)
        if len(got) >= 101:
            done.set()

    with Producer(cluster.name_servers, group="shop") as producer:
        result = producer.send(Message(topic, b"first"))
        assert result.queue_offset == 0
        assert len(producer.send_batch([Message(topic, b"x") for _ in range(100)])) == 100
        with PushConsumer(
            cluster.name_servers,
            group="sync",
            subscriptions={topic: "*"},
            listener=listen,
            start="earliest",
        ) as consumer:
            consumer.wait_assigned()
            assert len(consumer.assignment) == 8
            assert done.wait(60)
    with QueueReader(cluster.name_servers) as reader:
        stored = reader.stored_offsets("sync", topic)
        read = sum(
            len(columns)
            for queue, (begin, end) in reader.bounds(topic).items()
            for columns in reader.read_range(queue, begin, end)
        )

    assert len(got) == 101
    assert sum(stored.values()) == 101
    assert read == 101


def test_polling(cluster, topic):
    with Producer(cluster.name_servers) as producer:
        sent = producer.send_batch([Message(topic, b"x", message_group="g") for _ in range(20)])
    queue = sent[0].message_queue
    with PullConsumer(
        cluster.name_servers, group="sync-pull", subscriptions={topic: "*"}, start="earliest"
    ) as consumer:
        consumer.wait_assigned()
        assert len(consumer.assignment) == 8
        assert len(consumer.poll(5)) == 5
        assert consumer.position(queue) == 5
        consumer.pause(queue)
        assert consumer.paused == {queue}
        assert consumer.poll(timeout_s=0.05) == []
        consumer.resume(queue)
        consumer.commit()
        assert consumer.committed(queue) == 5
        consumer.seek(queue, 7)
        assert next(iter(consumer)).queue_offset == 7
        consumer.commit_nowait({queue: 8})
    assert consumer.group == "sync-pull"
    with (  # noqa: PT012 - the end of the block is the matter.
        pytest.raises(RuntimeError),
        PullConsumer(cluster.name_servers, group="sync-pull") as consumer,
    ):
        consumer.assign([queue])
        assert consumer.poll(1)[0].queue_offset == 8
        raise RuntimeError("not done")
    with PullConsumer(cluster.name_servers, group="sync-pull") as consumer:
        consumer.assign([queue])
        got = []
        for message in consumer:
            got.append(message.queue_offset)
            if len(got) == 12:
                break
    assert got == list(range(8, 20))


def test_threads_share_a_producer(cluster, topic):
    with (
        Producer(cluster.name_servers) as producer,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        results = list(pool.map(producer.send, [Message(topic, b"x")] * 200))

    assert len({(r.message_queue, r.queue_offset) for r in results}) == 200


def test_sending_without_waiting(cluster, topic):
    with Producer(cluster.name_servers) as producer:
        futures = [producer.send_nowait(Message(topic, b"x")) for _ in range(50)]
        producer.flush()

        assert all(future.done() for future in futures)
        with pytest.raises(errors.QueueNotFound):
            producer.send_nowait(
                Message(topic, b"x"), message_queue=MessageQueue(topic, "nobody", 0)
            ).result()
        with pytest.raises(errors.MessageIllegal):
            producer.send_nowait(Message(topic, b"x", tag="a||b"))


def test_a_generator_may_be_left(cluster, topic):
    with Producer(cluster.name_servers) as producer:
        queue = producer.send(Message(topic, b"x")).message_queue
        for _ in range(20):
            producer.send(Message(topic, bytes(50_000)), message_queue=queue)
    with QueueReader(cluster.name_servers) as reader:
        for columns in reader.read_range(queue, 0, 21, chunk_bytes=1 << 16):
            assert len(columns)
            break
        assert reader.bounds(topic)[queue] == (0, 21)


def test_errors_are_the_same(cluster):
    with Producer(cluster.name_servers) as producer, pytest.raises(errors.RouteNotFound):
        producer.route("nowhere")
    with pytest.raises(errors.ClientNotRunning):
        producer.send(Message("nowhere", b"x"))
    producer.close()
    with pytest.raises(errors.ClientNotRunning):
        Producer(cluster.name_servers).send(Message("nowhere", b"x"))
    Producer(cluster.name_servers).close()


def test_a_failed_start_leaves_no_thread(monkeypatch):
    # Clients of other tests begin and end threads whenever they like.
    here = threading.current_thread()
    began = []
    start = threading.Thread.start

    def record(thread):
        if threading.current_thread() in (here, *began):
            began.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", record)
    consumer = PushConsumer(
        "127.0.0.1:1", group="g", subscriptions={"nowhere": "*"}, listener=print
    )
    with pytest.raises(errors.NameServersUnreachable):
        consumer.start()

    assert began
    assert not [thread for thread in began if thread.is_alive()]


def test_blocking_on_the_loop_itself_is_refused(cluster, topic):
    with Producer(cluster.name_servers) as producer:

        async def wrong():
            with pytest.raises(errors.ClientNotRunning, match="own loop"):
                producer.send(Message(topic, b"x"))

        producer._run(wrong())


def test_ctrl_c_ends_the_wait_where_signals_are_not_the_consumers(cluster, topic):
    def consume():
        with PushConsumer(
            cluster.name_servers, group="g", subscriptions={topic: "*"}, listener=print
        ) as consumer:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            consumer.run_until_stopped(handle_signals=False)

    with pytest.raises(KeyboardInterrupt):
        consume()


def test_a_blocking_method_looks_like_the_one_it_stands_for():
    assert Producer.send.__doc__ == ariane_sdk.Producer.send.__doc__
    assert list(inspect.signature(Producer.send).parameters)[1:] == [
        "message",
        "message_queue",
        "selector",
        "timeout_s",
        "level",
        "in_sync_min",
    ]


@pytest.mark.parametrize(
    "name", ["Producer", "PullConsumer", "PushConsumer", "QueueReader", "ClusterClient"]
)
def test_every_public_method_has_its_twin(name):
    def public(cls):
        return {
            attribute
            for attribute in dir(cls)
            # A channel belongs to its loop.
            if not attribute.startswith("_") and attribute not in ("start", "channel")
        }

    assert public(getattr(ariane_sdk, name)) == public(getattr(sync, name))


def test_a_block_that_fails_leaves_no_order_of_queues(cluster):
    with ClusterClient(cluster.name_servers) as client:

        def order():
            with pytest.raises(errors.RouteNotFound) as unknown:
                client.route("half-made")
            return unknown.value.metadata.get("queue_order", "")

        def fail():
            with client.queue_order_first("half-made", {"broker-a": 2}):
                assert order() == "broker-a:2"
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert order() == ""


@pytest.mark.parametrize("module", [ariane_sdk, sync])
def test_exports_are_complete(module):
    assert len(module.__all__) == len(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)


def test_both_modules_export_the_same():
    assert {*sync.__all__, "__version__"} == set(ariane_sdk.__all__)


def in_a_forked_child(act):
    """The exit status of a child: what `act` returns there, 99 if it raises."""
    child = os.fork()
    if not child:
        gc.freeze()  # What other tests left of grpcio ends a child when it is collected.
        status = 99
        try:
            status = act()
        finally:
            os._exit(status)
    _, wait_status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(wait_status)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_is_told_that_clients_do_not_survive_a_fork_and_makes_its_own(cluster, topic):
    def use_inherited():
        try:
            producer.send(Message(topic, b"child"))
        except errors.ClientForked:
            return 0
        return 1

    def make_own():
        with Producer(cluster.name_servers) as own:
            own.send(Message(topic, b"child"))
        return 0

    with Producer(cluster.name_servers) as producer:
        producer.send(Message(topic, b"parent"))

        assert in_a_forked_child(use_inherited) == 0
        assert in_a_forked_child(make_own) == 0
        producer.send(Message(topic, b"parent still"))


def test_other_programs_start_while_a_client_is_in_use(cluster, topic):
    # PySpark starts Java like this; with gRPC's fork handlers one in forty starts failed.
    script = f"""
from ariane_sdk.sync import Message, Producer
import subprocess
with Producer({cluster.name_servers!r}) as producer:
    for _ in range(100):
        producer.send(Message({topic!r}, b"busy"))
        subprocess.run(["true"], preexec_fn=lambda: None, check=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_child_of_a_parent_that_has_used_none_makes_its_own(cluster, topic):
    script = f"""
import os
from ariane_sdk.sync import Message, Producer
child = os.fork()
with Producer({cluster.name_servers!r}) as producer:
    producer.send(Message({topic!r}, b"x"))
if not child:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

    assert run_script(script) == (0, b"7\n", b"")


def run_script(script):
    """Exit status, output and error output of a script in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, timeout=20, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_script_that_forgets_to_close_ends_all_the_same(cluster, topic):
    script = f"""
from ariane_sdk.sync import Message, Producer
producer = Producer({cluster.name_servers!r})
producer.start()
print(producer.send(Message({topic!r}, b"x")).queue_offset >= 0)
"""

    status, out, err = run_script(script)
    assert (status, out) == (0, b"True\n")
    assert err.endswith(
        b"ResourceWarning: Producer was started and never closed: use it in a `with` block, or call"
        b" close()\n"
    )
