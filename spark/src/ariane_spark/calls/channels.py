"""The channels of one process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ariane_sdk.channels import blocking_channel
from ariane_sdk.security import BROKER_KINDS, Expected
from ariane_spark.options.access_options import NO_ACCESS, JobAccess
from ariane_wire import ChannelOptions
from ariane_wire.blocking import BlockingChannel

CHANNEL_OPTIONS: Final = ChannelOptions(
    receive_octets_max=64 << 20,
    # Some chunks: a broker sends the next ones while a task is at work on the first.
    stream_window_octets=8 << 20,
    # A dead peer is noticed although it sends no packet; services permit 10 s.
    keepalive_time_s=30.0,
    keepalive_timeout_s=10.0,
    # A broker that restarts is back in a second; the default back-off grows to two minutes.
    backoff_first_s=0.1,
    backoff_max_s=2.0,
    connect_timeout_s=1.0,
)

_ANYBODY: Final = Expected()
NAME_SERVER: Final = Expected(("namesrv",))


class Channels:
    """One channel for each address, made when first needed; ends with the process.

    In a process that was forked, the channels have connections of that process.
    """

    def __init__(self, access: JobAccess = NO_ACCESS) -> None:
        """Open nothing yet.

        Args:
            access: TLS and credentials of the query, before those of the environment.

        Raises:
            IllegalArgument: A file cannot be read, or is none.
        """
        self._access = access.connections()
        self._channels: dict[str, BlockingChannel] = {}
        self._expected: dict[str, Expected] = {}

    def to(self, address: str) -> BlockingChannel:
        """The channel to an address, ``host:port``."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = blocking_channel(
                address,
                CHANNEL_OPTIONS,
                self._access,
                lambda: self._expected.get(address, _ANYBODY),
            )
        return channel

    def expect(self, address: str, expected: Expected) -> None:
        """Take only a certain process at an address: routes may lie, addresses are used again."""
        if self._expected.get(address) == expected:
            return
        self._expected[address] = expected
        # One that was made before may be to another process.
        channel = self._channels.pop(address, None)
        if channel is not None:
            channel.close()

    def expect_broker(self, name: str, addresses: Iterable[str], cluster: str = "") -> None:
        """Take only one broker at some addresses."""
        for address in addresses:
            self.expect(address, Expected(BROKER_KINDS, name, cluster))
