"""Channels from one process of a cluster to another: the one place where services open them."""

from __future__ import annotations

from random import Random

from grpc import aio

import ariane_wire
from ariane_wire import ChannelOptions


def open_channel(
    address: object, options: ChannelOptions | None = None, chance: Random | None = None
) -> aio.Channel:
    """Open a channel; it connects with its first call, to the address itself and never to a proxy.

    Args:
        address: ``host:port``, as a text or an ``Address``.
        options: Limits and times.
        chance: Spreads the attempts to connect; None for the machine's.
    """
    return ariane_wire.insecure_channel(str(address), options, chance=chance)
