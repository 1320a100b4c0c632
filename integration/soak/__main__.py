"""``python integration/soak``: minutes of messages while every kind of process is restarted."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Disks that lose power are kept there.
    sys.path.append(str(Path(__file__).parents[1] / "faults"))
    from message_soak.command import main

    sys.exit(main())
