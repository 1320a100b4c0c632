"""A connection carries octets in order, whatever happens to the way between both ends."""

from types import SimpleNamespace

import pytest
from played_world.machines.network import Network
from played_world.machines.played_transport import PlayedTransport
from played_world.machines.timeline import Timeline


class Reader:
    """A protocol that keeps what it has read."""

    def __init__(self):
        self.read = bytearray()
        self._buffer = bytearray(64)

    def connection_made(self, transport):
        pass

    def get_buffer(self, hint):
        return self._buffer

    def buffer_updated(self, count):
        self.read += self._buffer[:count]


@pytest.fixture
def world():
    return SimpleNamespace(timeline=Timeline(1))


@pytest.fixture
def ends(world):
    """Both ends of a connection from a to b."""
    network = Network(world)
    loop = SimpleNamespace(call_soon_threadsafe=lambda act, *given: act(*given))
    one, other = (
        PlayedTransport(network, process, (name, 1), ("", 0))
        for name in "ab"
        for process in [
            SimpleNamespace(
                machine=SimpleNamespace(name=name, is_up=True), loop=loop, is_dead=False
            )
        ]
    )
    one.peer, other.peer = other, one
    network._ends[one] = network._ends[other] = None
    return network, one, other


def test_what_is_under_way_when_the_way_is_cut_stays_before_what_is_written_then(world, ends):
    network, one, other = ends
    reader = Reader()
    other.begin(lambda: reader)
    network.slowness = 1000.0
    one.write(b"first ")
    network.cut("a", "b")
    one.write(b"second ")
    world.timeline.run(10.0)
    assert not reader.read
    one.write(b"third ")
    network.mend("a", "b")
    one.write(b"fourth")
    world.timeline.run(20.0)
    assert reader.read == b"first second third fourth"


def test_what_arrives_after_a_short_cut_waits_for_what_was_held_up(world, ends):
    network, one, other = ends
    reader = Reader()
    other.begin(lambda: reader)
    network.slowness = 1000.0
    for number in range(50):
        one.write(b"%02d " % number)
        network.cut("a", "b")
        world.timeline.run(world.timeline.now + 0.3)
        network.mend("a", "b")
        world.timeline.run(world.timeline.now + 0.1)
    world.timeline.run(200.0)
    assert reader.read.split() == [b"%02d" % number for number in range(50)]
