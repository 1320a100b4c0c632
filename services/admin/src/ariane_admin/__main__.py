"""``python -m ariane_admin`` and ``ariane``."""

from __future__ import annotations

from ariane_admin.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
