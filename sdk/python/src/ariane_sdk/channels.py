"""Channels for programs that make calls of their own, such as connectors: with TLS and login."""

from __future__ import annotations

from collections.abc import Callable

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.runtime.clock import new_random
from ariane_sdk.security import Access, Expected, is_loopback, server_name
from ariane_wire import Certificate, ChannelOptions, Opening
from ariane_wire.blocking import BlockingChannel, insecure_channel, secure_channel


def blocking_channel(
    address: str,
    options: ChannelOptions,
    access: Access,
    expected: Callable[[], Expected],
) -> BlockingChannel:
    """Open a channel for threads.

    Args:
        address: "host:port".
        options: Limits and times.
        access: How connections are made.
        expected: Says which process must be there; asked for each connection.

    Raises:
        IllegalArgument: A proof would be sent to another machine in plain text.
    """
    opening: Opening | None = None
    if access.credentials is not None:
        from ariane_sdk.net.login import Login  # noqa: PLC0415 - few have credentials.

        opening = Login(access.credentials, new_random())
    if access.tls is None:
        if opening is not None and not is_loopback(address):
            raise IllegalArgument(
                f"credentials are not sent in plain text, and {address} is another machine: tls is"
                " needed"
            )
        from ariane_sdk.net.greeting import Greeting  # noqa: PLC0415 - not with certificates.

        return insecure_channel(address, options, opening=Greeting(expected, before=opening))

    def check(certificate: Certificate) -> None:
        expected().check(server_name(certificate))

    return secure_channel(address, access.tls, options, check_server=check, opening=opening)
