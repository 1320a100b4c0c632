"""Channels from one process of a cluster to another: the one place where services open them."""

from __future__ import annotations

from typing import Final

from grpc import aio

NO_PROXY: Final = ("grpc.enable_http_proxy", 0)
"""Services are called directly. gRPC would use the proxy of the environment (``http_proxy``), which
is there for pages of the internet, and cannot reach the cluster; Docker sets it."""


def open_channel(address: object, options: tuple[tuple[str, int | str], ...] = ()) -> aio.Channel:
    """Open a channel; it connects with its first call.

    Args:
        address: ``host:port``, as a text or an ``Address``.
        options: Options of gRPC.
    """
    return aio.insecure_channel(str(address), options=(NO_PROXY, *options))
