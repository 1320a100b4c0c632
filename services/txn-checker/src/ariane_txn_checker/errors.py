"""Errors of the checker.

::

    CheckerError
    ├── LeaseLost             another checker has taken the broker over; nothing was written
    └── BrokerRefusal         a broker did not do what the checker asked
        ├── BrokerUnreachable     the call did not reach it: surely nothing was done
        ├── BrokerFailed          the call failed: it may or may not have had an effect
        ├── NobodyAnswered        no producer was there, or none answered
        ├── OutcomeStands         the transaction has an outcome already
        └── TransactionForgotten  the broker does not know the transaction (any more)
"""

from __future__ import annotations

from ariane_txn_checker.transaction import BrokerKey, Outcome


class CheckerError(Exception):
    """All errors of the checker."""


class LeaseLost(CheckerError):
    """Another checker has taken the broker over."""

    def __init__(self, broker: BrokerKey, fencing_token: int) -> None:
        super().__init__(f"the lease of {broker} with token {fencing_token} is another's now")
        self.broker = broker
        """The broker of the lease."""
        self.fencing_token = fencing_token
        """The outdated token."""


class BrokerRefusal(CheckerError):
    """A broker did not do what the checker asked."""


class BrokerUnreachable(BrokerRefusal):
    """A broker did not get the call, or did not accept it: surely nothing was done."""


class BrokerFailed(BrokerRefusal):
    """A broker failed during a call, or was lost: the call may or may not have had an effect."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        """An error reason such as ``"STORE_FULL"``."""


class NobodyAnswered(BrokerRefusal):
    """No producer answered how the transaction ended."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no producer answered: {reason}")
        self.reason = reason
        """An error reason such as ``"CLIENT_NOT_ATTACHED"``."""


class OutcomeStands(BrokerRefusal):
    """The transaction has an outcome already."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"the transaction ended before: {outcome.name}")
        self.outcome = outcome
        """The outcome."""


class TransactionForgotten(BrokerRefusal):
    """The broker does not know the transaction, or no longer knows it."""
