"""``python -m ariane_broker``: the only place that reads arguments and environment."""

from __future__ import annotations

import os
import sys

from ariane_broker.lives import BrokerLives
from ariane_broker.settings import BrokerSettings
from ariane_record.encoding.kept_memory import keep_freed_memory
from ariane_servicekit import main as run_service


def main() -> int:
    """Run a broker until it is asked to stop; return the exit status."""
    keep_freed_memory()
    return run_service(BrokerSettings, BrokerLives().compose, sys.argv[1:], os.environ)


if __name__ == "__main__":
    sys.exit(main())
