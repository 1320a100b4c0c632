"""``python -m ariane_namesrv``."""

from __future__ import annotations

import os
import sys

import ariane_servicekit as servicekit
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings


def main() -> int:
    """Run a name server until it is asked to stop; return the exit status."""
    return servicekit.main(NamesrvSettings, NamesrvApp, sys.argv[1:], os.environ)


if __name__ == "__main__":
    sys.exit(main())
