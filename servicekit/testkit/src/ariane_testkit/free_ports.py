"""Ports that are free now, for servers of others that cannot choose one themselves."""

from __future__ import annotations

import socket


def free_port(span: int = 1) -> int:
    """A port P of loopback of which P to P + span - 1 are free now.

    Another process may take it before the server does: whoever can say port 0 says that.
    """
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if all(_is_free(port + step) for step in range(span)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True
