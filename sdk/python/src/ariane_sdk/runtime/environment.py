"""What the environment of the process says to clients."""

from __future__ import annotations

import os
from typing import Final

NAME_SERVERS: Final = "ARIANE_NAME_SERVERS"


def name_servers_of_environment() -> str:
    """The name servers that the environment names; empty if it names none."""
    return os.environ.get(NAME_SERVERS, "")
