"""What the doctor finds in certificates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ariane_admin.counted import counted
from ariane_admin.doctor.cluster_facts import ClusterFacts, ProcessFacts
from ariane_admin.doctor.findings import Finding, Severity

DAYS_MIN: Final = 30
"""A certificate that ends earlier is reported."""

_URGENT_DAYS: Final = 7
_DAY_S: Final = 86_400


def certificates_that_end(facts: ClusterFacts) -> Iterator[Finding]:
    """Processes whose certificate, or whose authority's, ends soon."""
    processes = [(f"name server {one.address}", one.process) for one in facts.name_servers]
    processes += [
        (f"broker {one.identity.broker_name} at {one.identity.address}", one.process)
        for one in facts.brokers
    ]
    for subject, process in processes:
        days = _days_left(process)
        if days is not None:
            advice = "make it anew where the authority is, by ariane tls renew"
            yield from certificate_finding(
                subject, "certificate, or that of its authority,", days, advice
            )


def certificate_finding(subject: str, which: str, days: float, advice: str) -> Iterator[Finding]:
    """The finding that a certificate ends soon; none if it does not."""
    if days < DAYS_MIN:
        yield Finding(
            Severity.ERROR if days < _URGENT_DAYS else Severity.WARNING,
            subject,
            f"its {which} ends in {counted(round(days), 'day')}",
            f"{advice}, and hand the files out: nothing is restarted",
        )


def _days_left(process: ProcessFacts | None) -> float | None:
    """By the clock of the process itself."""
    if process is None or not process.state.HasField("certificate_expire_time"):
        return None
    state = process.state
    left_s = state.certificate_expire_time.ToSeconds() - state.current_time.ToSeconds()
    return left_s / _DAY_S


RULES: Final = (certificates_that_end,)
