"""gRPC's interoperability cases: between both implementations, and with Go, Java and Node."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from both_ends import IMPLEMENTATIONS
from go_programs import go_program
from interop_cases import CASES
from interop_service import messages, services, serving_interop
from java_programs import java_program
from node_programs import node_program


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


def go_client(port: int, case: str) -> tuple[Any, ...]:
    where = ("-server_host", "127.0.0.1", "-server_port", str(port))
    return (go_program("interop-client"), *where, "-test_case", case)


def java_client(port: int, case: str) -> tuple[Any, ...]:
    where = ("--server_host=127.0.0.1", f"--server_port={port}", "--use_tls=false")
    return (*java_program("TestServiceClient"), *where, f"--test_case={case}")


def node_client(port: int, case: str) -> tuple[Any, ...]:
    command, _ = node_program()
    return (*command, "call", f"127.0.0.1:{port}", case)


def node_environment() -> dict[str, str]:
    return node_program()[1]


CLIENTS = {"go": go_client, "java": java_client, "node": node_client}


async def run(*command: Any, **settings: Any) -> tuple[int, str]:
    """Run a program to its end; status and what it says."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, **settings
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@pytest.mark.slow
@pytest.mark.parametrize("language", CLIENTS)
@pytest.mark.parametrize("server", IMPLEMENTATIONS)
async def test_their_client_passes_every_case(server, language):
    settings = {"env": node_environment()} if language == "node" else {}
    async with serving_interop(IMPLEMENTATIONS[server]) as address:
        port = int(address.rpartition(":")[2])
        for case in CASES:
            status, said = await run(*CLIENTS[language](port, case), **settings)
            assert status == 0, f"{case}: {said}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def go_server(port: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (go_program("interop-server"), "-port", str(port)), {}


def java_server(port: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (*java_program("TestServiceServer"), f"--port={port}", "--use_tls=false"), {}


def node_server(port: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    command, environment = node_program()
    return (*command, "serve", str(port)), {"env": environment}


SERVERS = {"go": go_server, "java": java_server, "node": node_server}


@asynccontextmanager
async def their_server(language: str):
    """A server on a port that was free; its address, when it answers."""
    port = free_port()
    command, settings = SERVERS[language](port)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, **settings
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
@pytest.mark.parametrize("language", SERVERS)
@pytest.mark.parametrize("client", IMPLEMENTATIONS)
async def test_every_case_against_their_server(client, language):
    async with (
        their_server(language) as address,
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
