"""The id under which brokers know a client."""

from __future__ import annotations

import socket
from random import Random

from ariane_sdk.runtime.fork import process_id


def member_client_id(random: Random, group: str, member_name: str) -> str:
    """The id of a consumer: by its name in the group, if it has one."""
    return f"{member_name}@{group}" if member_name else new_client_id(random)


def new_incarnation(random: Random) -> str:
    """What distinguishes a client from an earlier one of the same id, which it replaces."""
    return f"{random.getrandbits(96):024x}"


def new_client_id(random: Random) -> str:
    """An id from host, process and a random part, so that no two living clients share one."""
    host = socket.gethostname().partition(".")[0] or "localhost"
    return f"{host}@{process_id()}@{random.getrandbits(48):012x}"
