"""Statuses of answers: gRPC says OK, and the code is in the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from apache.rocketmq.v2.definition_pb2 import Code, Status
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused

CODES: Final[Mapping[Refusal, Code.ValueType]] = {
    Refusal.TOPIC_ILLEGAL: Code.ILLEGAL_TOPIC,
    Refusal.TOPIC_UNKNOWN: Code.TOPIC_NOT_FOUND,
    Refusal.GROUP_ILLEGAL: Code.ILLEGAL_CONSUMER_GROUP,
    Refusal.GROUP_UNKNOWN: Code.CONSUMER_GROUP_NOT_FOUND,
    Refusal.MESSAGE_ILLEGAL: Code.BAD_REQUEST,
    Refusal.BODY_TOO_LARGE: Code.MESSAGE_BODY_TOO_LARGE,
    Refusal.PROPERTIES_TOO_LARGE: Code.MESSAGE_PROPERTIES_TOO_LARGE,
    Refusal.MESSAGE_TYPE: Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
    Refusal.DELIVERY_TIME: Code.ILLEGAL_DELIVERY_TIME,
    Refusal.FILTER_ILLEGAL: Code.ILLEGAL_FILTER_EXPRESSION,
    Refusal.RECEIPT_INVALID: Code.INVALID_RECEIPT_HANDLE,
    Refusal.MESSAGE_UNKNOWN: Code.MESSAGE_NOT_FOUND,
    Refusal.TRANSACTION_UNKNOWN: Code.INVALID_TRANSACTION_ID,
    Refusal.FORBIDDEN: Code.FORBIDDEN,
    Refusal.PREVENTED: Code.FORBIDDEN,
    Refusal.UNAUTHORIZED: Code.UNAUTHORIZED,
    Refusal.BUSY: Code.TOO_MANY_REQUESTS,
    Refusal.UNAVAILABLE: Code.HA_NOT_AVAILABLE,
    Refusal.UNCONFIRMED_FLUSH: Code.MASTER_PERSISTENCE_TIMEOUT,
    Refusal.UNCONFIRMED_REPLICATION: Code.SLAVE_PERSISTENCE_TIMEOUT,
    Refusal.NO_ANSWER: Code.PROXY_TIMEOUT,
    Refusal.UNSUPPORTED: Code.NOT_IMPLEMENTED,
    Refusal.FAULT: Code.INTERNAL_SERVER_ERROR,
}

AnswerT = TypeVar("AnswerT")

_NO_RIGHT: Final = frozenset({Code.UNAUTHORIZED, Code.FORBIDDEN})

OK: Final = Status(code=Code.OK, message="OK")
MESSAGES_MAX: Final = 1024
"""Characters of a text at most: clients log it."""


class Illegal(Exception):
    """A request that breaks a rule of the protocol; nothing was done."""

    def __init__(self, code: Code.ValueType, text: str) -> None:
        super().__init__(text)
        self.status = Status(code=code, message=text[:MESSAGES_MAX])
        """What the client is told."""


def status_of(error: Refused | Illegal) -> Status:
    """The status that a refusal is answered with."""
    if isinstance(error, Illegal):
        return error.status
    return Status(code=CODES[error.kind], message=error.text[:MESSAGES_MAX])


def ends_repeats(
    make: Callable[..., AnswerT], code: Code.ValueType = Code.INVALID_RECEIPT_HANDLE
) -> Callable[..., AnswerT]:
    """Make answers of a call that clients repeat, each second and for ever, until they are done.

    Who may not make it is told so by the code that ends their repeats; the text says why.

    Args:
        make: Makes an answer from a status.
        code: What ends the repeats.
    """

    def made(*, status: Status) -> AnswerT:
        if status.code in _NO_RIGHT:
            status = Status(code=code, message=status.message)
        return make(status=status)

    return made


def status_of_all(statuses: Sequence[Status]) -> Status:
    """The status of an answer with several entries."""
    first = statuses[0]
    if all(each.code == first.code for each in statuses):
        return first
    return Status(code=Code.MULTIPLE_RESULTS, message="the entries have different results")
