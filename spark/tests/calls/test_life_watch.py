"""Streams of brokers that send no more: dead ones are given up, slow ones are not."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from ariane.broker.v1.pull_service_pb2 import ListQueueBoundsResponse, PullRangeResponse
from ariane.broker.v1.pull_service_pb2_grpc import (
    PullServiceServicer,
    add_PullServiceServicer_to_server,
)
from ariane_record import RecordFields, encode_record
from ariane_sdk import MessageQueue
from ariane_sdk.errors import DeadlinePassed, ServiceUnavailable
from ariane_spark.calls.cluster import Fetch
from ariane_spark.calls.life_watch import THREAD_NAME, LifeWatch, WatchedStream
from ariane_spark.calls.queue_client import QueueClient
from ariane_spark.calls.routes import Routes
from ariane_spark.options.options import RequestPolicy
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail

QUEUE = MessageQueue("orders", "broker-a", 0)
SILENCE_S = 0.25
RECORDS = Fetch(Detail.RECORDS, 1 << 16)


class ScriptedRanges(PullServiceServicer):
    """Sends a range, a message in each chunk."""

    def __init__(self):
        self.before = {}
        """What is waited for before each chunk, by its queue offset."""
        self.refusal = None
        """What it answers when asked for its bounds, in place of them."""
        self.asked = threading.Event()
        """Set when it is asked for its bounds."""
        self.bounds = threading.Event()
        """It answers that once this is set."""
        self.left = threading.Event()
        """Set when a range is given up by who asked for it."""

    def PullRange(self, request, context):  # noqa: N802 - the contract's name.
        context.add_callback(lambda: context.code() is None and self.left.set())
        for queue_offset in range(request.begin_queue_offset, request.end_queue_offset):
            if queue_offset in self.before:
                self.before[queue_offset]()
            record = encode_record(
                RecordFields(topic="orders", body=b"", queue_offset=queue_offset)
            )
            yield PullRangeResponse(
                next_queue_offset=queue_offset + 1,
                record_sizes=np.array([len(record)], "<i4").tobytes(),
                records=record,
            )

    def ListQueueBounds(self, request, context):  # noqa: N802 - the contract's name.
        self.asked.set()
        self.bounds.wait(30)
        if self.refusal is not None:
            context.abort(self.refusal, "scripted")
        return ListQueueBoundsResponse()


@pytest.fixture
def broker(monkeypatch):
    scripted = ScriptedRanges()
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    add_PullServiceServicer_to_server(scripted, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    addresses = {"broker-a": f"127.0.0.1:{port}"}
    monkeypatch.setattr(Routes, "addresses", lambda self, topic: addresses)
    scripted.server = server
    yield scripted
    scripted.bounds.set()
    server.stop(None).wait()


@pytest.fixture
def client(broker):
    return QueueClient("nobody:1", RequestPolicy(timeout_ms=round(1000 * SILENCE_S)))


def offsets(client, count, pause=lambda: None, read=None):
    """What is read of a range, also put into ``read`` as it comes."""
    read = [] if read is None else read
    for chunk in client.read_range(QueueRange(QUEUE, 0, count), RECORDS):
        read += chunk.records.queue_offset.tolist()
        pause()
    return read


@pytest.mark.parametrize("silent_at", [0, 2])
def test_a_broker_that_sends_no_more_and_answers_nothing_else_is_given_up(
    broker, client, silent_at
):
    gone_on = threading.Event()
    broker.before[silent_at] = lambda: gone_on.wait(30)
    read = []

    with pytest.raises(DeadlinePassed, match=r"broker broker-a at .* sent nothing") as caught:
        offsets(client, 5, read=read)

    assert broker.left.wait(60)
    gone_on.set()
    assert read == list(range(silent_at))
    assert caught.value.retriable
    assert not caught.value.outcome_unknown


@pytest.mark.parametrize("refusal", [None, grpc.StatusCode.UNIMPLEMENTED])
def test_a_broker_that_is_slow_and_answers_is_waited_for(broker, client, refusal):
    broker.bounds.set()
    broker.refusal = refusal
    broker.before = dict.fromkeys((1, 3), lambda: time.sleep(3 * SILENCE_S))

    assert offsets(client, 4) == [0, 1, 2, 3]
    assert broker.asked.is_set()


def test_a_task_that_takes_long_over_a_chunk_is_not_the_brokers_fault(broker, client):
    assert offsets(client, 3, lambda: time.sleep(2 * SILENCE_S)) == [0, 1, 2]
    assert not broker.asked.is_set()


def test_a_chunk_that_comes_while_the_broker_is_asked_is_taken(broker, client):
    broker.before[1] = lambda: broker.asked.wait(30)

    assert offsets(client, 3) == [0, 1, 2]


def test_a_broker_that_dies_while_it_is_silent_may_be_asked_again(broker, client):
    broker.before[1] = lambda: broker.asked.wait(30) and broker.server.stop(None)

    with pytest.raises(ServiceUnavailable) as caught:
        offsets(client, 3)

    assert caught.value.retriable


def test_the_thread_ends_when_nobody_waits_and_begins_again_when_somebody_does():
    class Sleeps:
        """Lets a thread sleep until it is told to go on."""

        def __init__(self):
            self.begun = threading.Semaphore(0)
            self.over = threading.Semaphore(0)
            self.threads = []

        def __call__(self, seconds):
            self.threads.append(threading.current_thread())
            self.begun.release()
            assert self.over.acquire(timeout=30)

    def twice():
        yield "a"
        assert sleeps.begun.acquire(timeout=30)
        yield "b"

    sleeps = Sleeps()
    watch = LifeWatch(silence_s=1.0, monotonic=lambda: 0.0, sleep=sleeps)
    for times in (1, 2):
        answers = watch.answers(WatchedStream(twice(), "broker", pytest.fail))
        assert list(answers) == ["a", "b"]
        assert len(sleeps.threads) == times
        sleeps.over.release()
        sleeps.threads[-1].join(30)
        assert not sleeps.threads[-1].is_alive()
        assert sleeps.threads[-1].name == THREAD_NAME
