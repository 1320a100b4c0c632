"""``python sdk/python/examples/payments``: orders are paid exactly once, whatever happens."""

# ruff: noqa: INP001 - an example is a script.

from __future__ import annotations

import sys

from payment_demo.command import main

if __name__ == "__main__":
    sys.exit(main())
