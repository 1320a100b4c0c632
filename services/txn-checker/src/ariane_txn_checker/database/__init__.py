"""The checkers' data, in SQLite or PostgreSQL."""

from ariane_txn_checker.database.checks import CheckStore
from ariane_txn_checker.database.inquiries import InquiryStore, TransactionSelection
from ariane_txn_checker.database.leases import LeaseStore
from ariane_txn_checker.database.surveys import Stretch, SurveyStore
from ariane_txn_checker.database.tables import SCHEMA

__all__ = [
    "SCHEMA",
    "CheckStore",
    "InquiryStore",
    "LeaseStore",
    "Stretch",
    "SurveyStore",
    "TransactionSelection",
]
