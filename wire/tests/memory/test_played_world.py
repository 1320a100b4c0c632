"""Client and server on transports in memory: no socket, no clock but the loop's, one seed."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest

import ariane_wire
from ariane_wire.memory import HOST, Network, Standstill, VirtualLoop

METHOD = "/test.Echo/"
OPTIONS = ariane_wire.ChannelOptions(keepalive_time_s=10, keepalive_timeout_s=5)


class Weather(Network):
    """A network by a seed: late, and in pieces; each write is a line of ``trace``."""

    def __init__(self, seed=0, delay_s=0.05):
        super().__init__()
        self.chance = random.Random(seed)
        self.delay_max_s = delay_s
        self.down = set()
        self.trace = []

    def delay_s(self, sender, octets):
        return self.chance.random() * self.delay_max_s

    def pieces(self, sender, octets):
        self.trace.append((sender.host.name, asyncio.get_running_loop().time(), octets))
        at = self.chance.randrange(1, len(octets) + 1)
        return [piece for piece in (octets[:at], octets[at:]) if piece]

    def is_reachable(self, client, server):
        return server.name not in self.down


class Echo:
    """A service of all four kinds."""

    def __init__(self):
        self.peers = []
        self.cancelled = 0

    async def echo(self, request, context):
        self.peers.append(context.peer())
        return request

    async def hang(self, request, context):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def chat(self, requests, context):
        async for request in requests:
            yield request * 3

    def table(self):
        return {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "Hang": grpc.unary_unary_rpc_method_handler(self.hang),
            "Chat": grpc.stream_stream_rpc_method_handler(self.chat),
        }


async def serve(network, service, host="server", **options):
    """A server at port 7 of a host."""
    server = ariane_wire.server(
        ports=network.host(host),
        chance=random.Random(1),
        options=ariane_wire.ServerOptions(ping_interval_min_s=1, **options),
    )
    server.add_registered_method_handlers("test.Echo", service.table())
    server.add_insecure_port("0.0.0.0:7")
    await server.start()
    return server


def channel(host="server"):
    return ariane_wire.insecure_channel(f"{host}:7", OPTIONS, chance=random.Random(2))


def play(scenario, network=None):
    """Run a scenario in virtual time."""
    network = network or Weather()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(network)) as runner:
        return runner.run(scenario(network))


@pytest.fixture(autouse=True)
def no_world(monkeypatch):
    """No socket is made, and no clock is read; other tests' threads go on with theirs."""
    own = threading.current_thread()
    for module, names in ((socket, ["socket", "getaddrinfo"]), (time, ["time", "monotonic"])):
        for name in names:
            real = getattr(module, name)

            def fail(*given, name=name, real=real, **named):
                if threading.current_thread() is not own:
                    return real(*given, **named)
                raise AssertionError(f"the world was touched: {name}")

            monkeypatch.setattr(module, name, fail)


def test_calls_of_all_kinds_in_virtual_time():
    async def scenario(network):
        service = Echo()
        server = await serve(network, service)
        HOST.set("client")
        async with channel() as opened:
            assert await opened.unary_unary(METHOD + "Echo")(b"x" * 300_000) == b"x" * 300_000
            call = opened.stream_stream(METHOD + "Chat")()
            for size in (1, 100_000):
                await call.write(bytes(size))
                assert len(await call.read()) == 3 * size
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
        assert service.peers == [f"ipv4:{network.hosts['client'].address}:49153"]
        await server.stop(None)
        assert not any(host.connections for host in network.hosts.values())
        assert 0 < asyncio.get_running_loop().time() < 10

    play(scenario)


def test_a_deadline_of_an_hour_takes_no_time():
    async def scenario(network):
        service = Echo()
        await serve(network, service)
        opened = channel()
        with pytest.raises(ariane_wire.CallFailed) as failed:
            await opened.unary_unary(METHOD + "Hang")(b"", timeout=3000)
        assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert 3000 <= asyncio.get_running_loop().time() < 3001
        await asyncio.sleep(1)
        assert service.cancelled == 1
        await opened.close()

    play(scenario)


def test_a_host_that_ends_is_noticed_and_found_again():
    async def scenario(network):
        await serve(network, Echo())
        opened = channel()
        hanging = asyncio.create_task(_outcome(opened.unary_unary(METHOD + "Hang")(b"")))
        await asyncio.sleep(1)
        network.host("server").end()
        failure = await hanging
        assert failure.code() is grpc.StatusCode.UNAVAILABLE
        assert not failure.never_processed
        refused = await _outcome(opened.unary_unary(METHOD + "Echo")(b""))
        assert refused.never_processed
        await serve(network, Echo())
        assert await opened.unary_unary(METHOD + "Echo")(b"again", wait_for_ready=True) == b"again"
        await opened.close()

    play(scenario)


def test_a_host_that_falls_silent_is_given_up_by_keepalive():
    async def scenario(network):
        await serve(network, Echo())
        opened = channel()
        hanging = asyncio.create_task(_outcome(opened.unary_unary(METHOD + "Hang")(b"")))
        await asyncio.sleep(1)
        network.delay_s = lambda sender, octets: 1e6 if sender.host.name == "server" else 0.0
        failure = await hanging
        assert "keepalive" in failure.details()
        assert 15 <= asyncio.get_running_loop().time() < 30
        await opened.close()

    play(scenario)


def test_a_host_out_of_reach_refuses_calls_after_the_timeout_and_takes_them_later():
    async def scenario(network):
        await serve(network, Echo())
        network.down.add("server")
        opened = channel()
        refused = await _outcome(opened.unary_unary(METHOD + "Echo")(b""))
        assert refused.never_processed
        assert asyncio.get_running_loop().time() == pytest.approx(OPTIONS.connect_timeout_s)
        network.down.clear()
        assert await opened.unary_unary(METHOD + "Echo")(b"now", wait_for_ready=True) == b"now"
        unknown = channel("nowhere")
        assert "not known" in (await _outcome(unknown.unary_unary(METHOD + "Echo")(b""))).details()
        await opened.close()
        await unknown.close()

    play(scenario)


def test_a_draining_server_and_ages_of_connections_run_by_the_loops_clock():
    async def scenario(network):
        server = await serve(network, Echo(), age_max_s=100, age_grace_s=10)
        opened = channel()
        hanging = await _outcome(opened.unary_unary(METHOD + "Hang")(b""))
        assert hanging.code() is grpc.StatusCode.UNAVAILABLE
        assert 95 < asyncio.get_running_loop().time() < 130
        assert await opened.unary_unary(METHOD + "Echo")(b"new") == b"new"
        await server.stop(5)
        await opened.close()

    play(scenario)


def test_who_waits_for_nobody_stands_still():
    async def scenario(network):
        await asyncio.Event().wait()

    with pytest.raises(Standstill):
        play(scenario)


def test_a_transport_that_is_not_read_pauses_its_writer():
    async def scenario(network):
        service = Echo()
        await serve(network, service)
        opened = channel()
        await opened.channel_ready()
        [end] = network.host("server").connections
        end.pause_reading()
        call = opened.unary_unary(METHOD + "Echo")(b"x" * 1_000_000)
        await asyncio.sleep(1)
        assert not service.peers
        end.resume_reading()
        assert len(await call) == 1_000_000
        await opened.close()

    play(scenario)


async def random_life(network, seed):
    """Calls of several clients, some given up, on a network that breaks."""
    chance = random.Random(seed)
    server = await serve(network, Echo())
    channels = [channel() for _ in range(3)]
    outcomes = []

    async def one(number):
        await asyncio.sleep(chance.randrange(5))
        name = chance.choice(["Echo", "Echo", "Hang"])
        call = channels[number % 3].unary_unary(METHOD + name)
        body = bytes(chance.randrange(100_000))
        outcome = await _outcome(call(body, timeout=chance.choice([0.5, 1.5]), wait_for_ready=True))
        outcomes.append((number, getattr(outcome, "code", len)(*_argument(outcome))))

    tasks = [asyncio.create_task(one(number)) for number in range(60)]
    await asyncio.sleep(2.5)
    for end in network.host("server").connections:
        end.abort()
        break
    await asyncio.gather(*tasks)
    for each in channels:
        await each.close()
    # Whatever asyncio cancels at the end of a loop, it cancels in no order.
    await server.stop(None)
    return outcomes


def _argument(outcome):
    return () if isinstance(outcome, grpc.RpcError) else (outcome,)


async def _outcome(call):
    try:
        return await call
    except grpc.aio.AioRpcError as failure:
        return failure


def traced(seed):
    """All that was written in a life, and how its calls ended."""
    network = Weather(seed)
    outcomes = play(lambda _: random_life(network, seed), network)
    return repr((outcomes, network.trace))


def test_one_seed_is_one_run_also_in_one_process_and_another_seed_is_another():
    first = traced(1)
    assert "DEADLINE_EXCEEDED" in first
    assert first == traced(1)
    assert first != traced(2)


def test_the_seed_of_hashes_changes_nothing(monkeypatch):
    monkeypatch.undo()
    program = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1]); import test_played_world;"
        "print(hashlib.sha256(test_played_world.traced(3).encode()).hexdigest())"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(Path(__file__).parent)],
            env={"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = (run.communicate()[0] for run in runs)
    assert [run.returncode for run in runs] == [0, 0]
    assert first == second
