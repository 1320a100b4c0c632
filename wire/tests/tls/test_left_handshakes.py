"""Who is gone before a handshake begins costs none."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys

import pytest
from test_connections import call, client_of, served, server_of

import ariane_wire
from ariane_wire.transport import fair_places, first_octets


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has left")
@pytest.mark.parametrize("reset", [False, True])
async def test_with_those_who_have_left_no_handshake_is_begun(authority, monkeypatch, reset):
    """An attack leaves thousands behind, and honest clients wait for each of these handshakes."""
    monkeypatch.setattr(first_octets, "HANDSHAKES_MAX", 1)
    monkeypatch.setattr(fair_places, "PATIENCE_S", 60.0)
    loop = asyncio.get_running_loop()
    begin, begun = loop.connect_accepted_socket, []

    async def counted(*given, **named):
        begun.append(given)
        return await begin(*given, **named)

    monkeypatch.setattr(loop, "connect_accepted_socket", counted)
    async with served(server_of(authority)) as it, asyncio.timeout(60):
        _, first = await asyncio.open_connection("127.0.0.1", it.port)
        first.write(b"\x16\x03\x01")
        while not begun:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", it.port)
            writer.write(b"\x16\x03\x01")
            if reset:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
            writer.close()
            await writer.wait_closed()
        first.close()
        async with ariane_wire.secure_channel(it.address, client_of(authority)) as channel:
            assert await call(channel) == b"nobody"
    assert len(begun) == 2
