"""Where things lie: the drivers, what is fetched, and the results."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PEERS_PATH: Final = Path(__file__).parents[1]
DRIVERS_PATH: Final = PEERS_PATH / "drivers"
JAVA_PATH: Final = PEERS_PATH / "java"
ROOT: Final = PEERS_PATH.parents[1]
CACHE_PATH: Final = ROOT / ".cache" / "bench"
"""What was fetched; nothing of it is kept in the repository."""
RESULTS_PATH: Final = ROOT / "bench" / "results"
