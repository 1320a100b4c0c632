"""``python integration/demo``: a year of flights through a whole cluster."""

from __future__ import annotations

from flight_demo.command import main

if __name__ == "__main__":
    raise SystemExit(main())
