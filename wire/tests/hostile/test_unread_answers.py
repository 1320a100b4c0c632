"""Peers that ask and do not listen, and blocks that come octet by octet; without a socket."""

from __future__ import annotations

import asyncio

import raw_frames as raw
from attacks import ATTACKS
from probe import Probe

import ariane_wire
from ariane_wire.memory import Network, VirtualLoop
from ariane_wire.protocol.reading import FrameReader

FRAMES_MAX = 10_000
"""Ten for each call that may be open."""
CHUNK = 100


class Deaf(asyncio.BufferedProtocol):
    """Says what it is told to, and reads nothing."""

    def __init__(self):
        self.is_lost = False

    def connection_made(self, transport):
        self.transport = transport
        transport.pause_reading()

    def connection_lost(self, exc):
        self.is_lost = True


def play(scenario):
    network = Network()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(network)) as runner:
        return runner.run(scenario(network))


async def deaf_client(network):
    """A server and a connection to it; its end is there, too."""
    server = ariane_wire.server(handlers=[Probe()], ports=network.host("server"))
    server.add_insecure_port("server:7")
    await server.start()
    address = network.host("server").address
    _, deaf = await asyncio.get_running_loop().create_connection(Deaf, address, 7)
    deaf.transport.write(raw.PREFACE + raw.settings() + raw.SETTINGS_ACK)
    return server, deaf


def test_who_reads_no_answers_is_cut_off_before_they_pile_up():
    async def scenario(network):
        server, deaf = await deaf_client(network)
        attack = ATTACKS["answers that nobody reads"]
        said = 0
        while not deaf.is_lost and said < 3 * FRAMES_MAX:
            deaf.transport.write(b"".join(map(attack.unit, range(said, said + CHUNK))))
            said += CHUNK
            await asyncio.sleep(0.01)
            for end in network.host("server").connections:
                assert end.get_write_buffer_size() < 2 << 20
        await asyncio.sleep(3)
        assert server.statistics().streams_begun <= FRAMES_MAX
        assert server.statistics().connections == 0
        await server.stop(None)

    play(scenario)


def test_a_block_that_comes_octet_by_octet_is_not_copied_each_time(monkeypatch):
    cut = []
    whole = FrameReader._cut

    def counted(self, octets):
        cut.append(len(octets))
        whole(self, octets)

    monkeypatch.setattr(FrameReader, "_cut", counted)

    async def scenario(network):
        server, deaf = await deaf_client(network)
        fields = raw.block(raw.request_fields("/hostile.Probe/Echo", ("x-long", "+" * 8_000)))
        for octet in raw.frame(raw.Kind.HEADERS, raw.END_HEADERS, 1, fields):
            deaf.transport.write(bytes([octet]))
            await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert server.statistics().streams == 1
        assert sum(cut) < 4 * len(fields)
        await server.stop(None)

    play(scenario)
