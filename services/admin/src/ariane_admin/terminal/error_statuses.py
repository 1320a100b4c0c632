"""Errors of the client: their line of text, and the exit status of a command that failed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ariane_admin.asking.connection import NAME_SERVERS_VARIABLE
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import errors

# The first matching class decides.
_STATUSES: tuple[tuple[type[errors.ArianeError], ExitStatus], ...] = (
    (errors.IllegalArgument, ExitStatus.USAGE),
    (errors.NameServersUnreachable, ExitStatus.UNREACHABLE),
    (errors.ServiceUnavailable, ExitStatus.UNREACHABLE),
    (errors.DeadlinePassed, ExitStatus.UNREACHABLE),
    (errors.RouteNotFound, ExitStatus.NOT_FOUND),
    (errors.TopicNotFound, ExitStatus.NOT_FOUND),
    (errors.QueueNotFound, ExitStatus.NOT_FOUND),
    (errors.GroupNotFound, ExitStatus.NOT_FOUND),
    (errors.TopicExists, ExitStatus.REFUSED),
    (errors.TopicRefused, ExitStatus.REFUSED),
    (errors.GroupRefused, ExitStatus.REFUSED),
    (errors.AccessDenied, ExitStatus.REFUSED),
    (errors.QueueOffsetOutOfRange, ExitStatus.REFUSED),
)

# Errors without a class of their own are distinguished by their reason: a failed send has the
# reason of its cause.
_STATUSES_BY_REASON: Mapping[str, ExitStatus] = MappingProxyType(
    {
        **{kind.reason: status for kind, status in _STATUSES},
        "FIELD_INVALID": ExitStatus.USAGE,
        "FILTER_EXPRESSION_INVALID": ExitStatus.USAGE,
        "GROUP_NAME_ILLEGAL": ExitStatus.USAGE,
        "SETTING_INVALID": ExitStatus.USAGE,
        "TOPIC_NAME_ILLEGAL": ExitStatus.USAGE,
        "BROKER_ALIVE": ExitStatus.REFUSED,
        "BROKER_NOT_PRIMARY": ExitStatus.UNREACHABLE,
        "BROKER_NOT_REGISTERED": ExitStatus.NOT_FOUND,
        "CLIENT_NOT_ATTACHED": ExitStatus.NOT_FOUND,
        "MESSAGE_NOT_FOUND": ExitStatus.NOT_FOUND,
        "REPLICA_NOT_FOUND": ExitStatus.NOT_FOUND,
        "REPLICA_NOT_IN_SYNC": ExitStatus.REFUSED,
        "REPLICA_SET_CHANGED": ExitStatus.REFUSED,
        "SINK_NOT_FOUND": ExitStatus.NOT_FOUND,
        "TRANSACTION_NOT_FOUND": ExitStatus.NOT_FOUND,
        "USER_EXISTS": ExitStatus.REFUSED,
        "USER_NOT_FOUND": ExitStatus.NOT_FOUND,
        "FILTER_NOT_FOUND": ExitStatus.NOT_FOUND,
        "FEATURE_NOT_AVAILABLE": ExitStatus.REFUSED,
        "FILTER_FAILED": ExitStatus.REFUSED,
        "FILTER_IN_USE": ExitStatus.REFUSED,
        "FILTER_MODULE_INVALID": ExitStatus.USAGE,
        "FILTER_QUARANTINED": ExitStatus.REFUSED,
        "GROUP_EXISTS": ExitStatus.REFUSED,
        "GROUP_IN_USE": ExitStatus.REFUSED,
        "MESSAGE_TYPE_MISMATCH": ExitStatus.REFUSED,
        "BATCH_DIFFERS": ExitStatus.REFUSED,
        "SINK_MOVED": ExitStatus.REFUSED,
        "QUOTA_EXCEEDED": ExitStatus.REFUSED,
        "RECEIPT_HANDLE_EXPIRED": ExitStatus.REFUSED,
        "RESOURCE_CHANGED": ExitStatus.REFUSED,
        "TOO_FEW_IN_SYNC": ExitStatus.REFUSED,
        "TRANSACTION_DECIDED": ExitStatus.REFUSED,
        "TRANSACTION_FOREIGN": ExitStatus.REFUSED,
    }
)


_NAME_SERVERS_WANTED: Final = {errors.NameServersUnreachable.reason, "NOT_NAME_SERVER"}


def exit_status_of(error: errors.ArianeError) -> ExitStatus:
    """Return the exit status of a command that failed with `error`."""
    if error.outcome_unknown:
        return ExitStatus.OUTCOME_UNKNOWN
    if error.reason == errors.RouteNotFound.reason and "away_brokers" in error.metadata:
        return ExitStatus.UNREACHABLE  # A broker that had the topic is away.
    # The reason is more precise than the class, which unreachable services share with others.
    if error.reason in _STATUSES_BY_REASON:
        return _STATUSES_BY_REASON[error.reason]
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return ExitStatus.FAILED


def line_of(error: errors.ArianeError) -> str:
    """The line for an error: what ``text_of`` says, and its reason in brackets."""
    return f"{text_of(error)} [{error.reason}]"


def text_of(error: errors.ArianeError) -> str:
    """An error's text and notes, and advice."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{error}{notes}{_advice(error)}"


def reasoned(error: errors.ArianeError) -> str:
    """An error inside a warning: its text, and its reason in brackets."""
    return f"{error} [{error.reason}]"


def _advice(error: errors.ArianeError) -> str:
    """Advice for an error whose text has none; the same for all commands."""
    if error.reason in _NAME_SERVERS_WANTED:
        return f"; give their addresses with --name-servers or {NAME_SERVERS_VARIABLE}"
    says_it = isinstance(error, errors.SendError) or error.reason == "CHANGE_UNCONFIRMED"
    if error.outcome_unknown and not says_it:
        return "; it may have been done: check before you repeat it"
    return ""
