"""Channels from one process of a cluster to another: the one place where services open them."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import cast

from grpc import aio

import ariane_wire
from ariane_servicekit.rpc.calls import current_caller
from ariane_servicekit.security.caller import MemberKind
from ariane_servicekit.security.identity.identify import ACTING_KEY, acting_text
from ariane_servicekit.security.tls.service_tls import MEMBER_TLS
from ariane_wire import ChannelOptions, MetadataChannel


def open_channel(
    address: object,
    options: ChannelOptions | None = None,
    chance: Random | None = None,
    *,
    kinds: Collection[MemberKind] = (),
    name: str = "",
    acting: bool = False,
) -> aio.Channel:
    """Open a channel; it connects with its first call, to the address itself and never to a proxy.

    A process with certificates shows its own, and takes only processes of its cluster.

    Args:
        address: ``host:port``, as a text or an ``Address``.
        options: Limits and times.
        chance: Spreads the attempts to connect; None for the machine's.
        kinds: Which processes may be there; empty for any of the cluster.
        name: The name that the process must have in its certificate; empty for any.
        acting: Whether calls that are made for a user's call name the user, who is judged there.
    """
    tls = MEMBER_TLS.get()
    if tls is not None:
        channel = ariane_wire.secure_channel(
            str(address),
            tls.client_context,
            options,
            chance=chance,
            check_server=tls.checker(kinds, name),
        )
        # A channel in all that stubs ask of it.
        return cast("aio.Channel", MetadataChannel(channel, _acting)) if acting else channel
    return ariane_wire.insecure_channel(str(address), options, chance=chance)


def _acting() -> tuple[tuple[str, str], ...]:
    """The metadata that names the user for whose call a call is made; empty without one."""
    text = acting_text(current_caller())
    return ((ACTING_KEY, text),) if text else ()
