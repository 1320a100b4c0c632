"""A report as one HTML file: tables and charts, without external files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from ariane_pipelines.report_facts import ReportFacts
from ariane_record.counted import counted

_CHART_WIDTH: Final = 600
_CHART_HEIGHT: Final = 60

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1b1f24; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.5rem } h3 { font-size: 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d8dee4;
         vertical-align: middle }
th { font-weight: 600 } .number { text-align: right; font-variant-numeric: tabular-nums }
.late { color: #b3261e; font-weight: 600 } .none { color: #6e7781 }
svg { display: block; width: 100%; height: 3.5rem } svg rect { fill: #2f6db5 }
@media (prefers-color-scheme: dark) {
  body { color: #e6edf3; background: #0d1117 } th, td { border-color: #30363d }
  svg rect { fill: #6ea8e8 } .late { color: #ff8a80 } .none { color: #8b949e } }
"""

_TRACE_HEAD: Final = (
    "<th>topic<th>place<th>tag<th>stored<th class=number>journey"
    "<th>groups past it<th>groups before it"
)


def page_of(facts: ReportFacts, made_at: datetime) -> str:
    """The page.

    Args:
        facts: What it tells.
        made_at: When it was told.
    """
    span = f"{_time(facts.since)} to {_time(facts.until)}"
    step = f"{facts.step.total_seconds():,.0f} s" if facts.step.total_seconds() >= 1 else "less"
    parts = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Topics and groups, {escape(span)}</title><style>{_STYLE}</style>",
        "<h1>Topics and consumer groups</h1>",
        f"<p>Stored from {escape(span)}; told at {_time(made_at)}. All times are UTC.</p>",
        "<h2>Consumer groups</h2>",
        "<p>Messages that a group has not consumed, now, and how long the oldest has waited.</p>",
        _group_table(facts, made_at),
        "<h2>Topics</h2>",
        f"<p>Messages stored in the span; each bar of a chart is {step}. The journey is the time",
        "from the producer to the store, by the clocks of both.</p>",
        _topic_table(facts),
        "<h2>Tags</h2>",
        _tag_table(facts),
        "<h2>Traces</h2>",
        "<p>What carries one trace context (W3C), from the birth of its first message to the store",
        "of its last; the longest first. A group is past a message when its offset is, now.</p>",
        _trace_tables(facts),
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _group_table(facts: ReportFacts, made_at: datetime) -> str:
    rows = []
    for group in facts.groups:
        waited = "" if group.oldest is None else _span((made_at - group.oldest).total_seconds())
        late = ' class="number late"' if group.lag else ' class="number"'
        rows.append(
            f"<tr><td>{escape(group.group)}<td>{escape(group.topic)}"
            f'<td{late}>{group.lag:,}<td class="number">{waited}'
        )
    head = "<th>group<th>topic<th class=number>messages behind<th class=number>waits for"
    return _table(head, rows, "No group consumes these topics.")


def _topic_table(facts: ReportFacts) -> str:
    rows = []
    seconds = max((facts.until - facts.since).total_seconds(), 1e-9)
    for topic in facts.topics:
        median, slow = topic.journey_ms
        journey = f"{median:,.0f} / {slow:,.0f} ms" if topic.message_count else ""
        rows.append(
            f"<tr><td>{escape(topic.topic)}"
            f'<td class="number">{topic.message_count:,}'
            f'<td class="number">{topic.message_count / seconds:,.1f}'
            f'<td class="number">{journey}<td class="number">{topic.again_count:,}'
            f"<tr><td colspan=5>{_chart(topic.topic, topic.rates)}"
        )
    head = (
        "<th>topic<th class=number>messages<th class=number>a second"
        "<th class=number>journey, median / 99 %<th class=number>consumed again"
    )
    return _table(head, rows, "There are no such topics.")


def _tag_table(facts: ReportFacts) -> str:
    totals = {topic.topic: topic.message_count for topic in facts.topics}
    rows = [
        f"<tr><td>{escape(tag.topic)}"
        f"<td>{escape(tag.tag) if tag.tag is not None else '<span class=none>none</span>'}"
        f'<td class="number">{tag.message_count:,}'
        f'<td class="number">{100 * tag.message_count / max(1, totals.get(tag.topic, 0)):.1f} %'
        for tag in facts.tags
    ]
    head = "<th>topic<th>tag<th class=number>messages<th class=number>of its topic"
    return _table(head, rows, "No messages were stored.")


def _trace_tables(facts: ReportFacts) -> str:
    traces = facts.traces
    if not traces.trace_count:
        return '<p class="none">No message carries a trace: no producer measures.</p>'
    messages, of = counted(traces.traced_count, "message"), counted(traces.trace_count, "trace")
    parts = [f"<p>{messages} of {of}.</p>"]
    for trace in traces.longest:
        rows = [
            f"<tr><td>{escape(step.topic)}<td>{escape(step.place)}<td>{escape(step.tag or '')}"
            f"<td>{_time(step.stored)}"
            f'<td class="number">{(step.stored - step.born).total_seconds() * 1000:,.0f} ms'
            f"<td>{escape(', '.join(step.consumed_by))}"
            f"<td>{escape(', '.join(step.waited_for_by))}"
            for step in trace.steps
        ]
        length = f"{counted(trace.message_count, 'message')} in {trace.seconds:,.3f} s"
        parts.append(f"<h3>{escape(trace.trace_id)}: {length}</h3>")
        parts.append(_table(_TRACE_HEAD, rows, ""))
        if trace.message_count > len(rows):
            parts.append(f"<p>and {trace.message_count - len(rows):,} more</p>")
    return "\n".join(parts)


def _table(head: str, rows: Sequence[str], nothing: str) -> str:
    if not rows:
        return f'<p class="none">{nothing}</p>'
    return "\n".join(["<table>", f"<tr>{head}", *rows, "</table>"])


def _chart(title: str, rates: Iterable[int]) -> str:
    """A bar chart; the highest bar has the height of the chart."""
    heights = list(rates)
    highest = max(heights, default=0)
    width = _CHART_WIDTH / max(1, len(heights))
    bars = [
        f'<rect x="{at * width:.1f}" y="{_CHART_HEIGHT * (1 - height / highest):.1f}"'
        f' width="{max(1.0, width - 1):.1f}" height="{_CHART_HEIGHT * height / highest:.1f}">'
        f"<title>{height:,}</title></rect>"
        for at, height in enumerate(heights)
        if height
    ]
    return (
        f'<svg viewBox="0 0 {_CHART_WIDTH} {_CHART_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="messages of {escape(title)} over time, at most {highest:,} a step">'
        f"{''.join(bars)}</svg>"
    )


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _span(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    named = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{count} {unit}" for count, unit in named if count) or "0 s"
