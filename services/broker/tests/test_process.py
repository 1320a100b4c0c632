"""The broker as a process of its own."""

import asyncio
import json
import sys

import pytest
from grpc import aio


@pytest.fixture
async def start(tmp_path):
    children = []

    async def start_process(*flags, store="store"):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ariane_broker"),
            *("--store-path", str(tmp_path / store), "--segment-bytes", str(6 << 20)),
            *("--index-slots", "1000", "--index-items", "4000", "--grace-s", "0.1"),
            *flags,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        children.append(child)
        return child

    yield start_process
    for child in children:
        if child.returncode is None:
            child.kill()
        await child.communicate()


async def ready(child):
    async with asyncio.timeout(60):
        line = await child.stdout.readline()
    return json.loads(line)


async def ended(child):
    async with asyncio.timeout(60):
        _, errors = await child.communicate()
    return child.returncode, errors.decode()


async def test_ready_serve_stop(start, probe_class):
    child = await start("--listen", "127.0.0.1:0")
    line = await ready(child)
    assert (line["event"], line["service"], line["pid"]) == ("ready", "broker", child.pid)
    async with aio.insecure_channel(line["address"]) as channel:
        probe = probe_class(channel, line["address"])
        await probe.store("orders", [b"a"])
        assert await probe.bodies("orders") == [b"a"]
    child.terminate()
    status, _ = await ended(child)
    assert status == 0


@pytest.mark.slow
async def test_two_brokers_on_one_store_or_one_port(start):
    first = await start("--listen", "127.0.0.1:0")
    address = (await ready(first))["address"]
    for flags, store, words in (
        (("--listen", "127.0.0.1:0"), "store", "another process has this store open"),
        (("--listen", address), "other", "cannot listen on"),
    ):
        status, errors = await ended(await start(*flags, store=store))
        assert status == 2
        (line,) = [line for line in errors.splitlines() if line.startswith("ariane-broker: ")]
        assert words in line
        assert "Traceback" not in errors
    assert first.returncode is None


@pytest.mark.slow
async def test_a_killed_broker_comes_back_with_everything(start, probe_class):
    child = await start("--listen", "127.0.0.1:0")
    async with aio.insecure_channel((await ready(child))["address"]) as channel:
        probe = probe_class(channel, None)
        await probe.create_topic("orders", 2)
        await probe.store("orders", [b"a", b"b"], 1)
        await probe.store_offset("group", "orders", 1, 1, durable=True)
    child.kill()
    await ended(child)
    child = await start("--listen", "127.0.0.1:0")
    async with aio.insecure_channel((await ready(child))["address"]) as channel:
        probe = probe_class(channel, None)
        assert await probe.bodies("orders", 1) == [b"a", b"b"]
        assert await probe.known_offset("group", "orders", 1) == 1


async def test_a_senseless_setting_is_one_line(start):
    status, errors = await ended(await start("--flush-mode", "maybe"))
    assert status == 2
    (line,) = errors.splitlines()
    assert "--flush-mode" in line


async def test_all_lines_of_the_log_are_json_whatever_grpc_has_to_say(start):
    """A name server that says GOAWAY with an error has gRPC write a line of its own."""
    settings = bytes.fromhex("000000 04 00 00000000")
    goaway = bytes.fromhex("000008 07 00 00000000 00000000 00000002")
    again, visits = asyncio.Event(), 0

    async def leave(reader, writer):
        nonlocal visits
        visits += 1
        if visits > 1:  # The broker comes again: it has read what was said the first time.
            again.set()
        await reader.read(1)
        writer.write(settings + goaway)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(leave, "127.0.0.1", 0) as name_server:
        port = name_server.sockets[0].getsockname()[1]
        child = await start(
            *("--listen", "127.0.0.1:0", "--name-servers", f"127.0.0.1:{port}"),
            *("--name-server-wait-s", "0"),
        )
        await ready(child)
        async with asyncio.timeout(60):
            await again.wait()
    # Without it: gRPC would come again and again as long as the broker says goodbye.
    child.terminate()
    status, errors = await ended(child)
    assert [json.loads(line)["service"] for line in errors.splitlines()]
    assert status == 0
