"""``python bench/peers``: ourselves and other message queues in turn, on this machine."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from peer_bench.command import main

    sys.exit(main())
