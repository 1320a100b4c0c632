"""The id under which brokers know a client."""

from __future__ import annotations

import socket
from random import Random

from ariane_sdk.runtime.fork import process_id


def new_client_id(random: Random) -> str:
    """An id from host, process and a random part, so that no two living clients share one."""
    host = socket.gethostname().partition(".")[0] or "localhost"
    return f"{host}@{process_id()}@{random.getrandbits(48):012x}"
