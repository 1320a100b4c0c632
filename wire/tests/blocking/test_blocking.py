"""Channels for threads: what they give, also to other threads and to forked processes."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time

import grpc
import pytest
from grpc import StatusCode

import ariane_wire
from ariane_wire import blocking
from ariane_wire.blocking.loop_thread import LoopThread

RUNTIMES = {"wire": blocking, "grpcio": grpc}


class Server:
    """A server of ours on a loop in a thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.cancelled = threading.Event()
        self.begun = threading.Event()
        self.address = self.run(self._start())

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def _start(self):
        self.server = ariane_wire.server()
        table = {
            "Echo": grpc.unary_unary_rpc_method_handler(self._echo),
            "Fail": grpc.unary_unary_rpc_method_handler(self._fail),
            "Held": grpc.unary_unary_rpc_method_handler(self._hold),
            "Count": grpc.unary_stream_rpc_method_handler(self._count),
            "Endless": grpc.unary_stream_rpc_method_handler(self._endless),
            "Joined": grpc.stream_unary_rpc_method_handler(self._joined),
            "Each": grpc.stream_stream_rpc_method_handler(self._each),
        }
        self.server.add_registered_method_handlers("test.Echo", table)
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        return f"127.0.0.1:{port}"

    async def _echo(self, request, context):
        await context.send_initial_metadata((("x-first", "1"),))
        context.set_trailing_metadata((("x-last", "2"),))
        return request

    async def _fail(self, request, context):
        await context.abort(StatusCode.NOT_FOUND, "no such thing", (("x-why", "gone"),))

    async def _hold(self, request, context):
        self.begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def _count(self, request, context):
        for number in range(int(request)):
            yield b"%d" % number * 1000

    async def _endless(self, request, context):
        try:
            while True:
                await context.write(b"x" * 1000)
        finally:
            self.cancelled.set()

    async def _joined(self, requests, context):
        return b"".join([request async for request in requests])

    async def _each(self, requests, context):
        async for request in requests:
            yield request

    def close(self):
        self.run(self.server.stop(None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)
        self.loop.close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=sorted(RUNTIMES))
def channel(server, request):
    with RUNTIMES[request.param].insecure_channel(server.address) as channel:
        yield channel


def method(channel, kind, name):
    return getattr(channel, kind)(f"/test.Echo/{name}")


def test_unary(channel):
    echo = method(channel, "unary_unary", "Echo")
    response, call = echo.with_call(b"a", timeout=20)
    future = echo.future(b"b" * 1_000_000)
    assert (echo(b""), response, len(future.result())) == (b"", b"a", 1_000_000)
    assert ("x-first", "1") in tuple(call.initial_metadata())
    assert ("x-last", "2") in tuple(call.trailing_metadata())
    assert (call.code(), future.done(), future.running()) == (StatusCode.OK, True, False)


def test_failures(channel):
    with pytest.raises(grpc.RpcError) as caught:
        method(channel, "unary_unary", "Fail")(b"")
    error = caught.value
    assert (error.code(), error.details()) == (StatusCode.NOT_FOUND, "no such thing")
    assert ("x-why", "gone") in tuple(error.trailing_metadata())
    future = method(channel, "unary_unary", "Fail").future(b"")
    assert future.exception().code() is StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError):
        future.result()


def test_deadlines(channel):
    with pytest.raises(grpc.RpcError) as caught:
        method(channel, "unary_unary", "Held")(b"", timeout=0.05)
    assert caught.value.code() is StatusCode.DEADLINE_EXCEEDED
    future = method(channel, "unary_unary", "Held").future(b"")
    with pytest.raises(grpc.FutureTimeoutError):
        future.result(timeout=0.01)
    future.cancel()


def test_streams(channel):
    count = method(channel, "unary_stream", "Count")
    assert [int(each[:1]) for each in count(b"10")] == list(range(10))
    assert len(list(count(b"3000"))) == 3000
    assert method(channel, "stream_unary", "Joined")(iter([b"a", b"b"])) == b"ab"
    each = method(channel, "stream_stream", "Each")
    assert list(each(b"%d" % number for number in range(50))) == [b"%d" % n for n in range(50)]


def test_a_conversation(channel):
    """The next request depends on the last response."""
    turn = threading.Semaphore(1)

    def requests():
        for number in range(10):
            turn.acquire()
            yield b"%d" % number

    seen = []
    for response in method(channel, "stream_stream", "Each")(requests()):
        seen.append(int(response))
        turn.release()
    assert seen == list(range(10))


def test_cancelling_from_another_thread(server, channel):
    call = method(channel, "unary_stream", "Endless")(b"")
    assert next(call) == b"x" * 1000
    threading.Timer(0.02, call.cancel).start()
    with pytest.raises(grpc.RpcError) as caught:
        for _ in call:
            pass
    assert caught.value.code() is StatusCode.CANCELLED
    assert server.cancelled.wait(20)


def test_cancelling_a_future(server, channel):
    future = method(channel, "unary_unary", "Held").future(b"")
    assert server.begun.wait(20)
    assert future.cancel()
    with pytest.raises(grpc.FutureCancelledError):
        future.result(20)
    assert future.cancelled()
    assert server.cancelled.wait(20)


def test_a_stream_that_is_dropped(server, channel):
    call = method(channel, "unary_stream", "Endless")(b"")
    next(call)
    del call
    gc.collect()
    assert server.cancelled.wait(20)


def test_callbacks(channel):
    called = threading.Event()
    method(channel, "unary_unary", "Echo").future(b"").add_done_callback(lambda _: called.set())
    assert called.wait(20)


def test_readiness(channel):
    grpc.channel_ready_future(channel).result(20)


def test_an_iterator_that_raises(channel):
    def requests():
        yield b"a"
        raise ValueError("no more")

    with pytest.raises(grpc.RpcError) as caught:
        method(channel, "stream_unary", "Joined")(requests())
    assert caught.value.code() in {StatusCode.UNKNOWN, StatusCode.CANCELLED}


def test_many_threads(server):
    with blocking.insecure_channel(server.address) as channel:
        echo = method(channel, "unary_unary", "Echo")
        answers = []

        def work(number):
            answers.extend(echo(b"%d" % number) for _ in range(50))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert sorted(answers) == sorted(b"%d" % number for number in range(8) for _ in range(50))


def test_forked_processes(server):
    """A child goes on with the channel of its parent, on a connection of its own."""
    with blocking.insecure_channel(server.address) as channel:
        echo = method(channel, "unary_unary", "Echo")
        assert echo(b"parent") == b"parent"
        children = []
        for _ in range(2):
            child = os.fork()
            if not child:
                status = 1
                try:
                    status = 0 if [echo(b"%d" % n) for n in range(20)][-1] == b"19" else 2
                finally:
                    os._exit(status)
            children.append(child)
        ends = {}
        deadline = time.monotonic() + 120
        while len(ends) < 2 and time.monotonic() < deadline:
            assert echo(b"beside") == b"beside"
            for child in children:
                done, status = (0, 0) if child in ends else os.waitpid(child, os.WNOHANG)
                if done:
                    ends[child] = status
        assert list(ends.values()) == [0, 0]
        assert echo(b"after") == b"after"


LATE_EVENT = """
import ctypes, sys, time
{begin}
libc = ctypes.CDLL(None)  # Exit handlers in C take a while, as those of large libraries do.
libc.on_exit(ctypes.cast(libc.usleep, ctypes.c_void_p), None)
loop.call_soon_threadsafe(loop.call_later, 0.25, print)
time.sleep(0.1)  # So that it waits in C when the interpreter ends.
sys.exit(300_032)  # Microseconds; of a status, the last eight bits count.
"""

LOOPS = {
    "channels": "from ariane_wire.blocking.loop_thread import THREAD; loop = THREAD.loop()",
    "client": "from ariane_sdk.runtime.blocking import LoopThread\n"
    "thread = LoopThread(None); loop = thread._loop",
}


@pytest.mark.parametrize("begin", LOOPS.values(), ids=LOOPS)
def test_a_loop_does_not_outlive_the_interpreter(begin):
    """One in C would crash the process at its next event."""
    ended = subprocess.run([sys.executable, "-c", LATE_EVENT.format(begin=begin)], check=False)
    assert ended.returncode == 300_032 % 256


def test_no_call_begins_once_the_interpreter_ends():
    thread = LoopThread()
    loop = thread.loop()
    thread.end()
    assert not loop.is_running()
    with pytest.raises(RuntimeError, match="the interpreter ends"):
        thread.call(print)


def test_a_closed_channel(server):
    channel = blocking.insecure_channel(server.address)
    echo = method(channel, "unary_unary", "Echo")
    assert echo(b"") == b""
    channel.close()
    channel.close()
    with pytest.raises(ValueError, match="closed channel"):
        echo(b"")
