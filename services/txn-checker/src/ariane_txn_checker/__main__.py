"""``python -m ariane_txn_checker``."""

from __future__ import annotations

import os
import sys

import ariane_servicekit as servicekit
from ariane_txn_checker.app import CheckerApp
from ariane_txn_checker.settings import CheckerSettings


def main() -> int:
    """Run a transaction checker until it is asked to stop; return the exit status."""
    return servicekit.main(CheckerSettings, CheckerApp, sys.argv[1:], os.environ)


if __name__ == "__main__":
    sys.exit(main())
