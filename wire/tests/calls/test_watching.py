"""What a server and a channel say about themselves."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys

import grpc
import pytest

import ariane_wire
from ariane_wire import ChannelOptions, ServerOptions
from ariane_wire.client.connection import ClientConnection
from ariane_wire.transport.link import Link
from ariane_wire.transport.tracing import FrameTrace


async def echo(request, context):
    return request


async def test_statistics(serving):
    async with serving({"Echo": ("unary_unary", echo)}) as address:
        channel = ariane_wire.insecure_channel(address)
        for _ in range(5):
            await channel.unary_unary("/test.Echo/Echo")(b"x" * 95)
        now = channel.statistics()
        await channel.close()
    assert (now.connections, now.streams, now.streams_begun) == (1, 0, 5)
    assert now.data_octets_sent == 500
    assert now.held_octets == 0


async def test_responses_that_are_sent_together_come_in_order_and_each_by_itself(serving):
    wanted = [bytes([number]) * size for number, size in enumerate((3, 0, 100_000, 70_000, 1))]
    outcomes = []

    async def many(request, context):
        await context.write_together(wanted)
        await context.write_together(())
        try:
            await context.write_together([b"x" * 200_001])
        except grpc.aio.AbortError as error:
            outcomes.append(error)

    options = ServerOptions(send_octets_max=200_000)
    async with (
        serving({"Many": ("unary_stream", many)}, options=options) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        call = channel.unary_stream("/test.Echo/Many")(b"")
        assert [await call.read() for _ in wanted] == wanted
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(outcomes) == 1


@pytest.mark.parametrize("traced", [False, True])
async def test_frames_are_traced_by_one_setting(serving, caplog, traced):
    caplog.set_level(logging.DEBUG, "ariane_wire.frames")
    options = ServerOptions(trace_frames=traced)
    async with (
        serving({"Echo": ("unary_unary", echo)}, options=options) as address,
        ariane_wire.insecure_channel(address, ChannelOptions(trace_frames=traced)) as channel,
    ):
        await channel.unary_unary("/test.Echo/Echo")(b"x" * 100_000)
    lines = [line for line in caplog.messages if "stream=1 " in line]
    if not traced:
        assert not caplog.messages
    else:
        assert any("-> HEADERS stream=1 flags=0x04" in line for line in lines)
        assert any("<- HEADERS stream=1 flags=0x05" in line for line in lines)
        assert sum("-> DATA" in line for line in lines) >= 2


async def test_a_large_request_leaves_before_the_next_one_is_made(serving, caplog):
    caplog.set_level(logging.DEBUG, "ariane_wire.frames")
    async with (
        serving({"Echo": ("unary_unary", echo)}) as address,
        ariane_wire.insecure_channel(address, ChannelOptions(trace_frames=True)) as channel,
    ):
        call = channel.unary_unary("/test.Echo/Echo")
        await call(b"")
        left = []
        for octets in (10, 4096):
            # After a turn of several calls, those of the next one leave together if they are small.
            await asyncio.gather(*(call(b"") for _ in range(4)))
            caplog.clear()
            calls = [call(b"x" * octets) for _ in range(2)]
            left.append(sum("-> DATA" in line for line in caplog.messages))
            await asyncio.gather(*calls)
    assert left == [0, 2]


async def test_calls_one_after_the_other_wait_for_no_end_of_a_turn(serving, monkeypatch):
    ended, end_turn = [], Link._end_turn

    def counted(self):
        ended.append(self)
        end_turn(self)

    async with (
        serving({"Echo": ("unary_unary", echo)}) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        call = channel.unary_unary("/test.Echo/Echo")
        await call(b"")
        monkeypatch.setattr(Link, "_end_turn", counted)
        for _ in range(5):
            await call(b"x" * 1000)
        assert not ended
        await asyncio.gather(*(call(b"x") for _ in range(4)))
        assert ended


async def test_two_calls_of_each_turn_leave_together(serving, monkeypatch):
    writes, flush = [], Link.flush

    def counted(self):
        if self.connection.out and isinstance(self.connection, ClientConnection):
            writes.append(self)
        flush(self)

    async with (
        serving({"Echo": ("unary_unary", echo)}) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        call = channel.unary_unary("/test.Echo/Echo")
        await call(b"")
        monkeypatch.setattr(Link, "flush", counted)
        for _ in range(20):
            await asyncio.gather(call(b"x"), call(b"y"))
    assert 20 <= len(writes) <= 25


@pytest.mark.parametrize(("octets", "writes"), [(4096, 1), (40_000, 4)])
async def test_middling_answers_of_a_turn_leave_in_one_write(serving, monkeypatch, octets, writes):
    written, waiting, take = [], [], FrameTrace.take
    gates = {octets: asyncio.Event() for octets in (10, octets)}

    def counted(self, sent):
        written.append(len(sent))
        take(self, sent)

    async def many(request, context):
        for size, gate in gates.items():
            waiting.append(size)
            await gate.wait()
            await context.write(b"x" * size)

    options = ServerOptions(trace_frames=True)
    async with (
        serving({"Many": ("unary_stream", many)}, options=options) as address,
        ariane_wire.insecure_channel(address) as channel,
    ):
        calls = [channel.unary_stream("/test.Echo/Many")(b"") for _ in range(4)]
        monkeypatch.setattr(FrameTrace, "take", counted)
        for size, gate in gates.items():
            async with asyncio.timeout(20):
                while waiting.count(size) < 4:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.01)
            written.clear()
            gate.set()
            assert [len(await call.read()) for call in calls] == [size] * 4
    assert sum(each > octets for each in written) == writes


def test_frames_of_a_process_are_traced_by_its_environment():
    program = """
import asyncio, ariane_wire
async def main():
    server = ariane_wire.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with ariane_wire.insecure_channel(f"127.0.0.1:{port}") as channel:
        await channel.channel_ready()
    await server.stop(None)
asyncio.run(main())
"""
    said = {}
    for value in ("", "0", "1"):
        environment = {**os.environ, "ARIANE_WIRE_TRACE": value}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True
        )
        said[value] = done.stderr.decode()
    assert said[""] == said["0"] == ""
    assert "-> SETTINGS stream=0" in said["1"]


def test_options():
    pairs = [("grpc.max_receive_message_length", -1), ("grpc.keepalive_time_ms", 30_000)]
    assert ariane_wire.insecure_channel("localhost:1", pairs).options == ChannelOptions(
        receive_octets_max=-1, keepalive_time_s=30.0
    )
    with pytest.raises(ValueError, match=r"no option grpc\.lb_policy_name"):
        ariane_wire.insecure_channel("localhost:1", [("grpc.lb_policy_name", "x")])
    with pytest.raises(ValueError, match="always 0 here"):
        ariane_wire.server(options=[("grpc.so_reuseport", 1)])
