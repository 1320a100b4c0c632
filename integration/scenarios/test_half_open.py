"""Strangers say nothing, never finish with ten thousand connections, and show wrong proofs."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc.aio import AioRpcError
from new_clients import served_within

from ariane.common.v1 import login_service_pb2 as login_pb
from ariane.common.v1.login_service_pb2_grpc import LoginServiceStub
from ariane_sdk import ClusterClient, Tls

pytestmark = pytest.mark.slow

CONNECTIONS = 10_000
HOSTS = tuple(f"127.0.1.{number}" for number in range(1, 21))
"""Strangers: of one host a process takes no more than a part."""

ATTACK_S = 20.0
"""Longer than a handshake may take, so that those that are ended are begun anew. The process takes
some at a time, and the others wait in the kernel."""

GROWTH_MIB_MAX = 300
SERVED_S_MAX = 5.0
SERVED_MEANWHILE = 3
NEW_CLIENTS = Path(__file__).with_name("new_clients.py")
PROOFS = 1_000
IDLE = 1_000
HELLO_OF_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def memory_mib(pid):
    """The memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no memory of process {pid}")


def client_hello():
    """What a client of TLS says first."""
    context = ssl.create_default_context()
    said, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = context.wrap_bio(answer, said, server_hostname="broker")
    with pytest.raises(ssl.SSLWantReadError):
        half.do_handshake()
    return said.read()


async def stranger(address, host, words, begun):
    """Hold a connection that never comes to stand; when it is ended, begin another."""
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as one:
            one.setblocking(False)  # noqa: FBT003 - the name of the method says it.
            one.bind((host, 0))
            try:
                await loop.sock_connect(one, address)
                begun.append(host)
                await loop.sock_sendall(one, words)
                while await loop.sock_recv(one, 1 << 16):
                    pass
            except OSError:
                await asyncio.sleep(0.1)  # As one whose host refuses it.


async def attacked(address, pid, meanwhile):
    """Hold so many connections for a while; returns how many were begun, and the most memory.

    Meanwhile new clients come; it lasts at least until they are served.
    """
    host, port = address.rsplit(":", 1)
    hello, begun = client_hello(), []
    words = (b"", hello[:5], hello[:-1], hello)
    strangers = [
        asyncio.create_task(
            stranger((host, int(port)), HOSTS[number % len(HOSTS)], words[number % 4], begun)
        )
        for number in range(CONNECTIONS)
    ]
    memory, end = 0.0, time.monotonic() + ATTACK_S
    clients = asyncio.create_task(meanwhile())
    while time.monotonic() < end or not clients.done():
        await asyncio.sleep(0.2)
        memory = max(memory, memory_mib(pid))
    assert not any(each.done() for each in strangers)
    await clients
    for each in strangers:
        each.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)
    return len(begun), memory


async def served_meanwhile(count, servers, files):
    """Seconds that each of some new clients has taken, who come one after the other."""
    words = (str(count), servers, *(str(files[name]) for name in ("ca", "certificate", "key")))
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(NEW_CLIENTS), *words, stdout=subprocess.PIPE
    )
    try:
        told, _ = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        raise
    assert child.returncode == 0
    return json.loads(told)


async def wrong_proofs(address, tls, servers, end):
    """Show wrong proofs, a thousand at a time, until an end; returns how many were refused."""
    wrong = login_pb.FinishLoginRequest()
    wrong.key.credential_id, wrong.key.client_nonce = "anna-1", b"c" * 32
    wrong.key.signature = b"s" * 64
    count = 0
    async with ClusterClient(servers, tls=tls) as stranger:
        stub = LoginServiceStub(stranger.channel(address))

        async def show():
            nonlocal count
            while time.monotonic() < end:
                with pytest.raises(AioRpcError):
                    await stub.FinishLogin(wrong, timeout=30)
                count += 1

        await asyncio.gather(*(show() for _ in range(PROOFS)))
    return count


@asynccontextmanager
async def idle_strangers(address, authority):
    """Connections that stand, and say nothing more."""
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    host, port = address.rsplit(":", 1)
    limit, opened = asyncio.Semaphore(50), []

    async def one(number):
        own = (HOSTS[number % len(HOSTS)], 0)
        async with limit:
            reader, writer = await asyncio.open_connection(
                host, int(port), ssl=context, server_hostname=host, local_addr=own
            )
            opened.append(writer)
            writer.write(HELLO_OF_HTTP2)
            await reader.readexactly(9)

    try:
        await asyncio.gather(*(one(number) for number in range(IDLE)))
        yield opened
    finally:
        for each in opened:
            each.transport.abort()


async def test_ten_thousand_connections_that_never_come_to_stand_cost_little(local_cluster, until):
    async with local_cluster(tls=True, super_users=["root"]) as cluster:
        files = cluster.certificates.user("root")
        root, broker = Tls(**files), cluster.brokers[0]
        async with ClusterClient(cluster.name_servers, tls=root) as client:
            await until(client.list_brokers)
            await client.create_topic("orders", queue_count=1)
        before = memory_mib(broker.pid)
        async with idle_strangers(broker.address, files["ca"]) as idle:
            seconds = await served_within(cluster.name_servers, root)
            memory = memory_mib(broker.pid)
            print(f"{len(idle)} idle: {memory - before:.0f} MiB more, served in {seconds:.1f} s")
            assert len(idle) == IDLE
            assert not any(each.is_closing() for each in idle)
            assert memory - before <= GROWTH_MIB_MAX
            assert seconds <= SERVED_S_MAX
        waits = []

        async def clients():
            waits.extend(await served_meanwhile(SERVED_MEANWHILE, cluster.name_servers, files))

        begun, memory = await attacked(broker.address, broker.pid, clients)
        print(f"{len(waits)} new clients meanwhile, each within {max(waits):.1f} s")
        # By count, and not by time: each of them would wait for as long as the attack lasts.
        assert len(waits) == SERVED_MEANWHILE
        seconds = await served_within(cluster.name_servers, root)
        print(f"{begun} connections; {before:.0f} MiB before, {memory:.0f} at most")
        print(f"served in {seconds:.1f} s")
        assert begun >= 2_000
        assert memory - before <= GROWTH_MIB_MAX
        assert seconds <= SERVED_S_MAX

        end = time.monotonic() + ATTACK_S / 2
        attack = asyncio.create_task(
            wrong_proofs(broker.address, files["ca"], cluster.name_servers, end)
        )
        during = await served_within(cluster.name_servers, root)
        refused = await attack
        afterwards = await served_within(cluster.name_servers, root)
        print(f"{refused} wrong proofs; served in {during:.1f} s, afterwards {afterwards:.1f}")
        assert refused >= PROOFS * ATTACK_S / 2
        assert afterwards <= SERVED_S_MAX
        assert memory_mib(broker.pid) - before <= GROWTH_MIB_MAX
