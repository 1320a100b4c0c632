"""Transaction checker: has producers asked about half messages without an outcome."""

from ariane_txn_checker.app import CheckerApp
from ariane_txn_checker.settings import CheckerSettings

__all__ = ["CheckerApp", "CheckerSettings"]
