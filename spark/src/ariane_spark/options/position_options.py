"""The options for the start and the end of a read."""

from __future__ import annotations

from typing import Final

from ariane_spark.errors import OptionIllegal
from ariane_spark.options.given_options import GivenOptions, timestamp_ms_of
from ariane_spark.options.option_table import Use
from ariane_spark.positions.offsets import OffsetsMalformed, parse_offsets, parse_times
from ariane_spark.positions.position_rules import (
    AtGroup,
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    PositionRule,
)
from ariane_spark.positions.queue_selection import QueueSelection

_STRATEGY: Final = "startingOffsetsByTimestampStrategy"


def starting_rule(options: GivenOptions, use: Use, selection: QueueSelection) -> PositionRule:
    """The start of a new query.

    Raises:
        OptionIllegal: Two options contradict each other, or one is malformed.
    """
    strategy = (options.text(_STRATEGY) or "latest").lower()
    if strategy not in {"latest", "error"}:
        raise OptionIllegal(_STRATEGY, f"{strategy!r} is neither latest nor error")
    rule = _rule(options, "starting", selection, strict=strategy == "error")
    if options.text(_STRATEGY) is not None and not isinstance(rule, AtTime | AtTimes):
        raise OptionIllegal(_STRATEGY, "has a meaning only with a starting time")
    if use is Use.BATCH_READ and rule is Edge.LATEST:
        raise OptionIllegal("startingOffsets", "a batch that starts at the latest reads nothing")
    if rule is None:
        rule = Edge.EARLIEST if use is Use.BATCH_READ else Edge.LATEST
    group = options.group_name("group")
    return rule if group is None else AtGroup(group, rule)


def ending_rule(options: GivenOptions, selection: QueueSelection) -> PositionRule:
    """The end of a batch.

    Raises:
        OptionIllegal: Two options contradict each other, or one is malformed.
    """
    rule = _rule(options, "ending", selection, strict=False) or Edge.LATEST
    if rule is Edge.EARLIEST:
        raise OptionIllegal("endingOffsets", "a batch that ends at the earliest reads nothing")
    return rule


def check_order(starting: PositionRule, ending: PositionRule) -> None:
    """Check that a read does not end before it starts, as far as the options alone show it.

    Raises:
        OptionIllegal: It does, and would read nothing.
    """
    if isinstance(starting, AtGroup):
        starting = starting.otherwise
    match starting, ending:
        case AtTime(begin), AtTime(end):
            name, wrong = "Timestamp", end < begin
        case AtTimes(begins), AtTimes(ends):
            name = "OffsetsByTimestamp"
            wrong = any(ends[queue] < begins[queue] for queue in ends.keys() & begins.keys())
        case AtOffsets(begins), AtOffsets(ends):
            name = "Offsets"
            wrong = any(0 <= ends[queue] < begins[queue] for queue in ends.keys() & begins.keys())
        case _:
            return
    if wrong:
        raise OptionIllegal(f"ending{name}", f"is before 'starting{name}'; nothing would be read")


def _rule(
    options: GivenOptions, side: str, selection: QueueSelection, *, strict: bool
) -> PositionRule | None:
    """The rule of three related options, of which only one may be given."""
    offsets, timestamp, timestamps = (
        f"{side}Offsets",
        f"{side}Timestamp",
        f"{side}OffsetsByTimestamp",
    )
    chosen = options.only_one_of(offsets, timestamp, timestamps)
    if chosen is None:
        return None
    text = options.required_text(chosen, "")
    if chosen == timestamp:
        return AtTime(timestamp_ms_of(chosen, text), strict)
    if chosen == offsets and text.lower() in {edge.value for edge in Edge}:
        return Edge(text.lower())
    rule: AtOffsets | AtTimes
    try:
        if chosen == offsets:
            rule = AtOffsets(parse_offsets(text))
            topics = {queue.topic for queue in rule.positions}
        else:
            times = parse_times(text)
            moments = {queue: timestamp_ms_of(chosen, time) for queue, time in times.items()}
            rule = AtTimes(moments, strict)
            topics = {queue.topic for queue in moments}
    except OffsetsMalformed as error:
        wanted = "neither earliest nor latest nor offsets" if chosen == offsets else "no times"
        raise OptionIllegal(chosen, f"{wanted} as JSON: {error}") from error
    foreign = sorted(topic for topic in topics if not selection.admits(topic))
    if foreign:
        raise OptionIllegal(chosen, f"names {', '.join(foreign)}, which is not read")
    return rule
