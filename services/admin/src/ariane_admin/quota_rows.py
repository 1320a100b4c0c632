"""Quotas, and what is used of them, as rows: the command line and the console show the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane.admin.v1.quota_service_pb2 import BrokerQuotaUse
from ariane.common.v1.quota_pb2 import Quota, QuotaUse
from ariane_servicekit.security.limits.meter import (
    CREDENTIALS,
    FIGURE_WORDS,
    GROUPS,
    PREFIX,
    RATES,
    STORED,
    SUBJECT_WORDS,
    TOPIC,
    TOPICS,
)

QUOTA_COLUMNS: Final = ("figure", "subject", "name", "limit", "per", "holds_for")
"""The fields of a quota."""

USE_COLUMNS: Final = (
    *("figure", "subject", "name", "broker", "used", "limit", "per", "part"),
    *("state", "refused", "waited_s", "age_s"),
)
"""The fields of a use."""

REFUSED: Final = "refused"
"""The state of who was refused something within the last minute."""

SLOWED: Final = "slowed"
"""The state of who was answered later within the last minute, and nothing worse."""

FIGURES: Final[Mapping[str, int]] = {word: figure for figure, word in FIGURE_WORDS.items()}
"""Figures by their words."""

SUBJECTS: Final[Mapping[str, int]] = {word: subject for subject, word in SUBJECT_WORDS.items()}
"""Subjects by their words."""


def quota_of(figure: str, subject: str, name: str, limit: int = 0) -> Quota:
    """The quota that people name by words; a name of ``*`` is each one without a quota of its own.

    Raises:
        KeyError: A word is none.
    """
    quota = Quota(name="" if name == "*" else name, limit=limit)
    quota.figure = FIGURES[figure]  # type: ignore[assignment]  # it came from the contract
    quota.subject = SUBJECTS[subject]  # type: ignore[assignment]
    return quota


def quota_row(quota: Quota) -> dict[str, str | int]:
    """A quota: whom it holds for, how much it is, and where it is counted."""
    return {
        "figure": FIGURE_WORDS.get(quota.figure, str(quota.figure)),
        "subject": SUBJECT_WORDS.get(quota.subject, str(quota.subject)),
        "name": quota.name or "*",
        "limit": quota.limit,
        "per": "second" if quota.figure in RATES else "",
        "holds_for": _holds_for(quota),
    }


def use_row(found: BrokerQuotaUse) -> dict[str, str | int | float | None]:
    """What a subject uses at one broker: how much, and whether it is kept back now.

    ``part`` is the part of the limit that is used, ``refused`` and ``waited_s`` count since the
    broker began, and ``age_s`` is None unless it was kept back within the last minute.
    """
    use = found.use
    quota = quota_row(use.quota)
    late = use.HasField("age_duration")
    return {
        **{name: quota[name] for name in ("figure", "subject", "name")},
        "broker": found.broker_name,
        "used": use.used,
        "limit": use.quota.limit,
        "per": quota["per"],
        "part": round(use.used / max(1, use.quota.limit), 3),
        "state": _state(use),
        "refused": use.refused_count,
        "waited_s": use.waited_duration.ToMilliseconds() / 1000,
        "age_s": use.age_duration.ToMilliseconds() / 1000 if late else None,
    }


def _state(use: QuotaUse) -> str:
    if use.refusing:
        return REFUSED
    return SLOWED if use.HasField("age_duration") else ""


def _holds_for(quota: Quota) -> str:
    if quota.figure == CREDENTIALS:
        return "the cluster"
    by_broker = quota.figure in {STORED, TOPICS, GROUPS} or quota.subject in {TOPIC, PREFIX}
    return "each broker" if by_broker else "each process"
