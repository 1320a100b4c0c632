"""``python -m ariane_filter``."""

from __future__ import annotations

import os
import sys

import ariane_servicekit as servicekit
from ariane_filter.app import FilterApp
from ariane_filter.settings import FilterSettings


def main() -> int:
    """Run a FilterServer until it is asked to stop; return the exit status."""
    return servicekit.main(FilterSettings, FilterApp, sys.argv[1:], os.environ)


if __name__ == "__main__":
    sys.exit(main())
