"""What the doctor finds in gateways."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from ariane_admin.doctor.certificate_rules import certificate_finding
from ariane_admin.doctor.cluster_facts import ClusterFacts
from ariane_admin.doctor.findings import Finding, Severity
from ariane_admin.doctor.gateway_facts import GatewayFacts

DRAINING: Final = "draining"
"""What a gateway says of its stage when it is about to stop."""

_CERTIFICATES: Final = (
    ("certificate_ends", "make it anew where the authority is, by ariane tls renew"),
    ("front_certificate_ends", "have it renewed by whoever signs it for clients"),
)
_DAY_S: Final = 86_400


def silent_gateways(facts: ClusterFacts) -> Iterator[Finding]:
    """Gateways that are attached and do not answer."""
    for gateway in facts.gateways:
        if gateway.error:
            yield Finding(
                Severity.ERROR,
                _subject(gateway),
                f"does not answer: {gateway.error}",
                "its clients wait: read the end of its log, and restart it; balancers find another",
            )


def draining_gateways(facts: ClusterFacts) -> Iterator[Finding]:
    """Gateways that are about to stop."""
    for gateway in facts.gateways:
        if gateway.facts.get("stage") == DRAINING:
            yield Finding(
                Severity.NOTE,
                _subject(gateway),
                "is about to stop, and takes no new work",
                "nothing is to be done: its clients go to another one",
            )


def gateways_of_some_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    """Gateways that are attached to some brokers, and not to others that answer."""
    there = {one.identity.broker_name for one in facts.brokers if one.state is not None}
    for gateway in facts.gateways:
        missing = sorted(there.difference(gateway.attached_to))
        if missing and gateway.facts.get("stage") != DRAINING:
            yield Finding(
                Severity.WARNING,
                _subject(gateway),
                f"is not attached to {', '.join(missing)}: what its push consumers have in hand"
                " from there comes again too early",
                "look in its log for why it does not reach them; one that has just started or"
                " found a new broker needs some seconds",
            )


def certificates_of_gateways(facts: ClusterFacts) -> Iterator[Finding]:
    """Gateways of which a certificate ends soon: that of the process, or what clients are shown."""
    for gateway in facts.gateways:
        now = _time_of(gateway.facts.get("current_time", ""))
        for name, advice in _CERTIFICATES:
            ends = _time_of(gateway.facts.get(name, ""))
            if now is not None and ends is not None:
                days = (ends - now).total_seconds() / _DAY_S
                yield from certificate_finding(
                    _subject(gateway), name.removesuffix("_ends").replace("_", " "), days, advice
                )


def _subject(gateway: GatewayFacts) -> str:
    address = gateway.facts.get("address", "")
    return f"gateway {gateway.gateway_id}" + (f" at {address}" if address else "")


def _time_of(text: str) -> datetime | None:
    """A time that a gateway wrote; None for what is none."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None


RULES: Final = (
    silent_gateways,
    draining_gateways,
    gateways_of_some_brokers,
    certificates_of_gateways,
)
