"""``python integration/soak``: minutes of messages while every kind of process is restarted."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from message_soak.command import main

    sys.exit(main())
