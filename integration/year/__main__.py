"""``python integration/year``: what Spark makes of a year of flights, with every total checked."""

from __future__ import annotations

import sys
from pathlib import Path

INTERRUPTED = 130

if __name__ == "__main__":
    # Flights, events and totals are those of the demo.
    sys.path.insert(0, str(Path(__file__).parents[1] / "demo"))
    try:
        from flight_year.command import main

        status = main()
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)
