"""The network: connections in memory, which carry octets in order, late, or not at all.

A connection is what TCP makes of a bad network. What is lost on the way is sent again, and comes
late. While a way is cut, what is sent waits; it arrives when the way is back, unless an end has
given up meanwhile. A connection that is broken loses what is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ariane_wire import BindRefused
from played_world.machines.played_transport import PlayedTransport

if TYPE_CHECKING:
    from ariane_wire.transport.link import Link
    from ariane_wire.transport.ports import Listening, Networks
    from ariane_wire.transport.tls import Credentials
    from played_world.machines.machine import Machine
    from played_world.machines.process import Process
    from played_world.world import World

LATENCY_S: Final = (50e-6, 2e-3)
"""How long octets are on their way, between two machines that are well connected."""

RESEND_S: Final = 0.2
"""How long it takes to notice that something was lost, the first time."""

_PORT_FIRST: Final = 49_152


class PlayedPort:
    """A port that a process has bound."""

    def __init__(self, network: Network, process: Process, port: int) -> None:
        self.port = port
        self.process = process
        self.accept: Callable[[str], Link] | None = None
        self._network = network

    async def listen(
        self, loop: asyncio.AbstractEventLoop, accept: Callable[[str], Link], handshake_s: float
    ) -> list[Listening]:
        """Take connections."""
        del loop, handshake_s
        self.accept = accept
        return [self]

    def close(self) -> None:
        """Give the port back."""
        self._network.ports.pop((self.process.machine.address, self.port), None)


class PlayedPorts:
    """Where a process binds ports: its machine."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def bind(
        self,
        address: str,
        tls: Credentials | None,
        *,
        takes_plain_text: bool,
        proxies: Networks = (),
    ) -> PlayedPort:
        """Bind ``host:port``.

        Raises:
            BindRefused: It is in use.
        """
        del tls, takes_plain_text, proxies
        network = self._process.world.network
        port = int(address.rpartition(":")[2]) or network.next_port()
        place = (self._process.machine.address, port)
        if place in network.ports:
            raise BindRefused(f"cannot listen on {address}: Address already in use")
        network.ports[place] = bound = PlayedPort(network, self._process, port)
        return bound


class Network:
    """What connects the machines."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ports: dict[tuple[str, int], PlayedPort] = {}
        """Those that are bound, by address and number."""
        self.loss = 0.0
        """Share of what is sent that is lost at first, and comes late."""
        self.slowness = 1.0
        """How many times as long as usual octets are under way."""
        self._chance = world.timeline.chance("network")
        self._cut: dict[tuple[str, str], None] = {}
        self._ends: dict[PlayedTransport, None] = {}
        self._port = _PORT_FIRST

    # How well it works.

    def next_port(self) -> int:
        """A port that nobody has."""
        self._port += 1
        return self._port

    def latency_s(self) -> float:
        """How long what is sent now is under way."""
        low, high = LATENCY_S
        seconds = (low + (high - low) * self._chance.random()) * self.slowness
        resend_s = RESEND_S
        while self.loss and self._chance.random() < self.loss:
            seconds += resend_s
            resend_s *= 2
        return seconds

    def pieces(self, octets: bytes) -> list[bytes]:
        """How octets that were written at once arrive."""
        if len(octets) > 1 and self._chance.random() < 0.05:
            at = self._chance.randrange(1, len(octets))
            return [octets[:at], octets[at:]]
        return [octets]

    def is_cut(self, sender: Machine, receiver: Machine) -> bool:
        """Whether nothing goes this way now."""
        return sender is not receiver and (sender.name, receiver.name) in self._cut

    def cut(self, sender: str, receiver: str) -> None:
        """Let nothing through this way."""
        self._cut[sender, receiver] = None

    def mend(self, sender: str, receiver: str) -> None:
        """Let everything through again: what has waited goes on."""
        if self._cut.pop((sender, receiver), None) is None and (sender, receiver) in self._cut:
            return
        for end in list(self._ends):
            if end.machine.name == sender and end.peer.machine.name == receiver:
                end.send_waiting()

    def mend_all(self) -> None:
        """Let everything through again."""
        for sender, receiver in list(self._cut):
            self.mend(sender, receiver)
        self.loss, self.slowness = 0.0, 1.0

    def reset(self, one: str, other: str) -> bool:
        """Break all connections between two machines; return whether there are any."""
        broken = [
            end for end in self._ends if end.machine.name == one and end.peer.machine.name == other
        ]
        for end in broken:
            end.break_later()
            end.peer.break_later()
        return bool(broken)

    # Connections.

    async def connect(
        self,
        process: Process,
        make: Callable[[], asyncio.BaseProtocol],
        place: tuple[str, int],
    ) -> tuple[PlayedTransport, asyncio.BaseProtocol]:
        """Connect a process to a port.

        Raises:
            OSError: Nobody listens there.
        """
        there = self.world.machine_at(place[0])
        loop = process.loop
        answered: asyncio.Future[PlayedTransport] = loop.create_future()

        def refuse() -> None:
            if not answered.done():
                answered.set_exception(ConnectionRefusedError(f"Connect call failed {place}"))

        def arrive() -> None:
            if self.is_cut(process.machine, there) or not there.is_up or process.is_dead:
                return  # Nobody answers, and the caller gives up.
            port = self.ports.get(place)
            if port is None or port.accept is None or port.process.is_dead:
                if not self.is_cut(there, process.machine):
                    self.world.timeline.after(self.latency_s(), loop.call_soon_threadsafe, refuse)
                return
            near = PlayedTransport(
                self, process, (process.machine.address, self.next_port()), place
            )
            far = PlayedTransport(self, port.process, place, near.own_address)
            near.peer, far.peer = far, near
            self._ends[near] = self._ends[far] = None
            port.process.loop.call_soon_threadsafe(far.begin, partial(port.accept, ""))
            self.world.timeline.after(self.latency_s(), near.answer, answered)

        self.world.timeline.after(self.latency_s(), arrive)
        near = await answered
        protocol = make()
        near.begin(lambda: protocol)
        return near, protocol

    def forget_end(self, end: PlayedTransport) -> None:
        """An end of a connection is no more."""
        self._ends.pop(end, None)

    def forget(self, process: Process) -> None:
        """A process has ended: its machine, if that is up, tells its peers."""
        for place, port in list(self.ports.items()):
            if port.process is process:
                del self.ports[place]
        for end in list(self._ends):
            if end.process is process:
                end.vanish()
