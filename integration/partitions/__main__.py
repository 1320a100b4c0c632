"""``python integration/partitions``: groups of three brokers, cut apart, killed and unplugged."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).parents[1]
    # Disks that lose power, and how a broker loses it.
    sys.path += [str(here / "faults"), str(here / "soak")]
    from partition_soak.command import main

    sys.exit(main())
