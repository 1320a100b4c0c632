"""gRPC's interoperability cases: between both implementations, and with Go's own programs."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from both_ends import IMPLEMENTATIONS
from go_programs import go_program
from interop_cases import CASES
from interop_service import messages, services, serving_interop


@pytest.mark.parametrize("pair", list(itertools.product(IMPLEMENTATIONS, repeat=2)), ids="-".join)
async def test_every_case_between_the_two(pair):
    client, server = pair
    async with (
        serving_interop(IMPLEMENTATIONS[server]) as address,
        IMPLEMENTATIONS[client].insecure_channel(address) as channel,
    ):
        for name, case in CASES.items():
            async with asyncio.timeout(60):
                await case(channel)
            assert name in CASES


async def run(program, *arguments) -> tuple[int, str]:
    """Run a program to its end; status and what it says."""
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@pytest.mark.slow
@pytest.mark.parametrize("server", IMPLEMENTATIONS)
async def test_go_s_client_passes_every_case(server):
    client = go_program("interop-client")
    async with serving_interop(IMPLEMENTATIONS[server]) as address:
        port = address.rpartition(":")[2]
        for name in CASES:
            where = ("-server_host", "127.0.0.1", "-server_port", port)
            status, said = await run(client, *where, "-test_case", name)
            assert status == 0, f"{name}: {said}"


@asynccontextmanager
async def go_s_server():
    """Go's server on a port that was free; its address, when it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        go_program("interop-server"),
        *("-port", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    address = f"127.0.0.1:{port}"
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            empty = services.TestServiceStub(channel).EmptyCall
            await empty(messages.Empty(), wait_for_ready=True, timeout=60)
        yield address
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("client", IMPLEMENTATIONS)
async def test_every_case_against_go_s_server(client):
    async with (
        go_s_server() as address,
        IMPLEMENTATIONS[client].insecure_channel(address) as channel,
    ):
        for name, case in CASES.items():
            async with asyncio.timeout(60):
                await case(channel)
            assert name in CASES


@pytest.mark.slow
@pytest.mark.parametrize("server", IMPLEMENTATIONS)
async def test_grpcurl_finds_and_calls_by_reflection(server):
    grpcurl = go_program("grpcurl")
    async with serving_interop(IMPLEMENTATIONS[server]) as address:
        status, said = await run(grpcurl, "-plaintext", address, "list")
        assert status == 0, said
        assert "grpc.testing.TestService" in said.splitlines()
        status, said = await run(grpcurl, "-plaintext", address, "describe", "grpc.testing.Payload")
        assert status == 0, said
        assert "bytes body = 2;" in said
        asked = ("-plaintext", "-d", '{"response_size": 3}', address)
        status, said = await run(grpcurl, *asked, "grpc.testing.TestService/UnaryCall")
        assert status == 0, said
        assert json.loads(said) == {"payload": {"body": "AAAA"}}
        asked = ("-plaintext", "-d", '{"response_status": {"code": 9, "message": "no"}}', address)
        status, said = await run(grpcurl, *asked, "grpc.testing.TestService/UnaryCall")
        assert status == 64 + 9, said
        assert "FailedPrecondition" in said
