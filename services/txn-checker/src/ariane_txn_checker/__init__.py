"""Transaction checker: has producers asked about half messages without an outcome."""

import ariane_servicekit  # noqa: F401 - it must come before whatever imports gRPC.

# isort: split
from ariane_txn_checker.app import CheckerApp
from ariane_txn_checker.settings import CheckerSettings

__all__ = ["CheckerApp", "CheckerSettings"]
