"""A network, its ports and its clock in memory: for worlds that are played with a seed."""

from ariane_wire.memory.loop import Standstill, VirtualLoop
from ariane_wire.memory.network import HOST, Host, Network
from ariane_wire.memory.transport import MemoryTransport

__all__ = ["HOST", "Host", "MemoryTransport", "Network", "Standstill", "VirtualLoop"]
