"""The channels of one process."""

from __future__ import annotations

from typing import Final

from ariane_wire import ChannelOptions
from ariane_wire.blocking import BlockingChannel, insecure_channel

CHANNEL_OPTIONS: Final = ChannelOptions(
    receive_octets_max=64 << 20,
    # A dead peer is noticed although it sends no packet; services permit 10 s.
    keepalive_time_s=30.0,
    keepalive_timeout_s=10.0,
    # A broker that restarts is back in a second; the default back-off grows to two minutes.
    backoff_first_s=0.1,
    backoff_max_s=2.0,
    connect_timeout_s=1.0,
)


class Channels:
    """One channel for each address, made when first needed; ends with the process.

    In a process that was forked, the channels have connections of that process.
    """

    def __init__(self) -> None:
        self._channels: dict[str, BlockingChannel] = {}

    def to(self, address: str) -> BlockingChannel:
        """The channel to an address, ``host:port``."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = insecure_channel(address, CHANNEL_OPTIONS)
        return channel
