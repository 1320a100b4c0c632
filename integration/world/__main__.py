"""``python integration/world``: play seeds of the world; see its README."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    if "--plant" in sys.argv:
        from played_world.planted.planted_faults import PLANTED
        from played_world.planted.planting import plant

        plant(PLANTED[sys.argv[sys.argv.index("--plant") + 1]])
    from played_world.command import main

    sys.exit(main(sys.argv[1:]))
