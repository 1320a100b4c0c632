"""The address of this machine, for the ids of messages."""

from __future__ import annotations

import asyncio

LOOPBACK = "127.0.0.1"


async def own_ip(peer: str) -> str:
    """The address of this machine on the way to a peer; no packet is sent.

    Args:
        peer: "host:port".
    """
    host, _, port = peer.rpartition(":")
    try:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=(host.strip("[]"), int(port))
        )
    except OSError:
        return LOOPBACK
    ip: str = transport.get_extra_info("sockname", (LOOPBACK,))[0]
    transport.close()
    return ip.partition("%")[0]
