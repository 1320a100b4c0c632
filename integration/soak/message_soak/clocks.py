"""Brokers whose machines' clocks jump, and are right again.

The brokers are the real ones, composed with a clock that adds to the machine's what a file says:
eight bytes, milliseconds as i64, little-endian. Each reads the file whenever it asks for the time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from random import Random
from struct import Struct
from typing import Final

BROKER_MODULE: Final = "moved_clock_broker"
"""Below ``integration/faults``."""

_VARIABLE: Final = "MOVED_CLOCK"
_FAULTS: Final = Path(__file__).parents[2] / "faults"
_AHEAD: Final = Struct("<q")
_HOUR_MS: Final = 3_600_000
_JUMPS_MS: Final = (-_HOUR_MS, -5_000, 5_000, _HOUR_MS, 15 * 24 * _HOUR_MS)


def why_no_jumps() -> str:
    """Why there are no such brokers; empty when there are."""
    return "" if find_spec(BROKER_MODULE) else f"there is no {BROKER_MODULE} below {_FAULTS}"


class BrokerClock:
    """The clock of all brokers."""

    def __init__(self, path: Path, chance: Random) -> None:
        """Be right.

        Args:
            path: The file that says how far it is ahead.
            chance: Where jumps come from.
        """
        self._path = path
        self._chance = chance

    def wind_up(self) -> Mapping[str, str]:
        """Make the file; what brokers must find in their environment."""
        self._path.write_bytes(_AHEAD.pack(0))
        folders = [str(_FAULTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {_VARIABLE: str(self._path), "PYTHONPATH": os.pathsep.join(folders)}

    def jump(self) -> int:
        """Be wrong from now on; by how many milliseconds."""
        ahead_ms = self._chance.choice(_JUMPS_MS)
        self._set(ahead_ms)
        return ahead_ms

    def be_right(self) -> None:
        """Tell the machine's time again."""
        self._set(0)

    def _set(self, ahead_ms: int) -> None:
        # In place: brokers have it in their memory.
        with self._path.open("r+b") as file:
            file.write(_AHEAD.pack(ahead_ms))
