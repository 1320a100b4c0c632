"""Where things lie: the drivers, what is fetched, and the results."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

PEERS_PATH: Final = Path(__file__).parents[1]
DRIVERS_PATH: Final = PEERS_PATH / "drivers"
JAVA_PATH: Final = PEERS_PATH / "java"
ROOT: Final = PEERS_PATH.parents[1]
CACHE_PATH: Final = ROOT / ".cache" / "bench"
"""What was fetched; nothing of it is kept in the repository."""
RESULTS_PATH: Final = ROOT / "bench" / "results"


def free_port(span: int = 1) -> int:
    """A port P of which P to P + span - 1 are free now, for servers that cannot choose one."""
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
        except OSError:
            return False
    return True
