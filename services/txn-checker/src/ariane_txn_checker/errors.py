"""Errors of the checker.

::

    CheckerError
    ├── LeaseLost             another checker looks after the broker now; nothing was written
    └── BrokerRefusal         a broker did not do what was asked
        ├── BrokerUnreachable     it did not get what was asked: surely nothing was done
        ├── BrokerFailed          it failed at what was asked: that may or may not have been done
        ├── NobodyAnswered        it asked, or had nobody to ask: the producer's side is silent
        ├── OutcomeStands         the transaction has an outcome already
        └── TransactionForgotten  it does not know the transaction (any more)
"""

from __future__ import annotations

from ariane_txn_checker.transaction import BrokerKey, Outcome


class CheckerError(Exception):
    """All errors of the checker."""


class LeaseLost(CheckerError):
    """Another checker looks after the broker now.

    Attributes:
        broker: Whose lease it was.
        fencing_token: The token that is behind the times.
    """

    def __init__(self, broker: BrokerKey, fencing_token: int) -> None:
        super().__init__(f"the lease of {broker} with token {fencing_token} is another's now")
        self.broker = broker
        self.fencing_token = fencing_token


class BrokerRefusal(CheckerError):
    """A broker did not do what was asked."""


class BrokerUnreachable(BrokerRefusal):
    """A broker did not get what was asked, or did not take it: surely nothing was done."""


class BrokerFailed(BrokerRefusal):
    """A broker failed at what was asked, or was lost: that may or may not have been done.

    Attributes:
        reason: An error reason such as ``"STORE_FULL"``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class NobodyAnswered(BrokerRefusal):
    """No producer told how the transaction ended.

    Attributes:
        reason: An error reason such as ``"CLIENT_NOT_ATTACHED"``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"no producer answered: {reason}")
        self.reason = reason


class OutcomeStands(BrokerRefusal):
    """The transaction has an outcome already.

    Attributes:
        outcome: The one that stands.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"the transaction ended before: {outcome.name}")
        self.outcome = outcome


class TransactionForgotten(BrokerRefusal):
    """The broker does not know the transaction, or not any more."""
