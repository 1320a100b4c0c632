"""``python integration/demo``: a year of flights through a whole cluster."""

from __future__ import annotations

import sys

INTERRUPTED = 130

if __name__ == "__main__":
    try:
        from flight_demo.command import main

        status = main()
    except KeyboardInterrupt:
        # So early that there is nothing to clean up: the imports alone take a second.
        status = INTERRUPTED
    sys.exit(status)
