"""Which totals a run must give, and who promises them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flight_demo.checks import Check, Promise
from flight_demo.closed_form import WHOLE_YEAR, Expectation
from flight_demo.events import EventKind
from flight_demo.work.delays import ReceivedStatistics
from flight_demo.work.failover import KILLS
from flight_demo.work.group import GroupTotals


@dataclass(frozen=True, slots=True)
class SparkTotals:
    """What Spark says it did."""

    events: int
    """Messages read."""

    illegible: int
    """Those among them whose body is no event."""

    messages: int
    """Messages written."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run found."""

    acknowledged: int
    """Events that a broker acknowledged to the producer."""

    stored: int
    """Messages in the queues of the topic ``flights``."""

    group: GroupTotals
    """What the two consumers saw."""

    behind: int
    """Messages between the group's stored offsets and the ends of the queues."""

    late: Mapping[str, tuple[int, int]]
    """Events that each way of filtering let through, and how many of them are others."""

    spark: SparkTotals

    delays_stored: int
    """Messages in the queues of the topic ``delays``."""

    delays: ReceivedStatistics
    """What the topic ``delays`` said."""

    takeovers: int | None = None
    """How often a replica took over from a primary that was killed; None: none was killed."""


def all_checks(expected: Expectation, found: Findings, *, whole_year: bool) -> list[Check]:
    """Return every total with its closed form."""
    return [
        *(_source_checks(expected) if whole_year else ()),
        *_failure_checks(found),
        *_sending_checks(expected, found),
        *_consuming_checks(expected, found),
        *_filter_checks(expected, found),
        *_spark_checks(expected, found),
    ]


def _source_checks(expected: Expectation) -> list[Check]:
    """The source is what it was published to be."""
    return [
        Check(f"flights {kind.tag}", WHOLE_YEAR.of_kind(kind), expected.totals.of_kind(kind))
        for kind in EventKind
    ]


def _failure_checks(found: Findings) -> list[Check]:
    if found.takeovers is None:
        return []
    return [Check("primaries killed, and replicas that took over", KILLS, found.takeovers)]


def _sending_checks(expected: Expectation, found: Findings) -> list[Check]:
    events = expected.totals.events
    return [
        Check("events acknowledged = 2 S + D", events, found.acknowledged),
        Check("messages in topic flights", events, found.stored, Promise.AT_LEAST_ONCE),
    ]


def _consuming_checks(expected: Expectation, found: Findings) -> list[Check]:
    ledger = found.group.ledger
    repeats = Promise.AT_LEAST_ONCE
    if found.takeovers:
        repeats = Promise.AT_LEAST_ONCE_AFTER_A_FAILURE
    return [
        *(
            Check(
                f"events {kind.tag}, distinct",
                expected.totals.of_kind(kind),
                ledger.by_kind.get(kind.tag, 0),
            )
            for kind in EventKind
        ),
        Check("events that no consumer saw", 0, found.group.missing),
        Check(
            "events seen twice",
            0,
            ledger.duplicates + found.group.seen_by_both,
            repeats,
        ),
        Check("events out of order for their aircraft", 0, ledger.backwards),
        Check(
            "message groups, each with one consumer", expected.message_groups, ledger.message_groups
        ),
        Check("messages that are no event", 0, ledger.strangers),
        Check("queue offsets passed over", 0, ledger.offset_gaps),
        Check("queue offsets delivered again", 0, ledger.offset_repeats, repeats),
        Check("messages behind the stored offsets", 0, found.behind),
    ]


def _filter_checks(expected: Expectation, found: Findings) -> list[Check]:
    return [
        check
        for way, (count, strangers) in found.late.items()
        for check in (
            Check(f"late departures, by {way}", expected.late, count, Promise.AT_LEAST_ONCE),
            Check(f"other events, by {way}", 0, strangers),
        )
    ]


def _spark_checks(expected: Expectation, found: Findings) -> list[Check]:
    totals, delays = expected.totals, found.delays
    rows = len(expected.statistics)
    return [
        Check("events read by Spark", totals.events, found.spark.events),
        Check("events that Spark cannot read", 0, found.spark.illegible),
        Check("delay statistics written by Spark", rows, found.spark.messages),
        Check("messages in topic delays", rows, found.delays_stored, Promise.AT_LEAST_ONCE),
        Check("delay statistics received", rows, len(delays.by_key)),
        Check("delay statistics received twice", 0, delays.duplicates, Promise.AT_LEAST_ONCE),
        Check("flights scheduled, by carrier", totals.scheduled, delays.total("flights")),
        Check("flights departed, by carrier", totals.departed, delays.total("departed")),
        Check("flights cancelled, by carrier", totals.cancelled, delays.total("cancelled")),
        Check("delay statistics that differ", 0, delays.differing_from(expected.statistics)),
    ]
