"""What quotas let through and kept back, for metrics."""

from __future__ import annotations

from collections.abc import Iterator

from ariane_servicekit.observability.measures import Measures, Value
from ariane_servicekit.security.limits.meter import FIGURE_WORDS, SUBJECT_WORDS
from ariane_servicekit.security.limits.quotas import Quotas


def measure_quotas(measures: Measures, quotas: Quotas) -> None:
    """Make the instruments of the quotas of a process: nothing for who has none."""

    def used() -> Iterator[Value]:
        for meter, figure, amount in quotas.used():
            yield amount, _attributes(figure, meter.subject, meter.name)

    def refused() -> Iterator[Value]:
        for use in quotas.uses.all():
            yield use.refused_count, _attributes(use.figure, use.subject, use.name)

    def waited() -> Iterator[Value]:
        for use in quotas.uses.all():
            yield use.waited_s, _attributes(use.figure, use.subject, use.name)

    measures.counter(
        "ariane.quota.used",
        "1",
        "Bytes or calls that a user or topic has used which has a quota of them.",
        used,
    )
    measures.counter(
        "ariane.quota.refused",
        "1",
        "Times that something was refused beyond a quota.",
        refused,
    )
    measures.counter(
        "ariane.quota.waited",
        "s",
        "Seconds that answers were held back for a quota, together.",
        waited,
    )


def _attributes(figure: int, subject: int, name: str) -> dict[str, str]:
    return {"figure": FIGURE_WORDS[figure], "subject": SUBJECT_WORDS[subject], "name": name}
