"""``python -m ariane_gateway``."""

from __future__ import annotations

import os
import sys

import ariane_servicekit as servicekit
from ariane_gateway.app import GatewayApp
from ariane_gateway.settings import GatewaySettings


def main() -> int:
    """Run a gateway until it is asked to stop; return the exit status."""
    return servicekit.main(GatewaySettings, GatewayApp, sys.argv[1:], os.environ)


if __name__ == "__main__":
    sys.exit(main())
