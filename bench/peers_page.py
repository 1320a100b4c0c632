"""Ourselves beside other message queues, for the page.

Tables, pictures, where we lose, and who was skipped: made from ``results/latest.json`` and
``latest-runs.json``, which ``make bench-peers`` keeps (and ``bench/spark.py``, of Spark's connector
to Kafka); every figure in the text is one of theirs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from measure import RESULTS_PATH
from of_limit import LIMITS, fraction
from peers_losses import losses
from peers_overview import overview
from ratio_picture import picture_of

sys.path.append(str(Path(__file__).parent / "peers"))

from peer_bench.registry import PEERS

ROWS_PATH = RESULTS_PATH / "latest.json"
RUNS_PATH = RESULTS_PATH / "latest-runs.json"
PICTURES_PATH = Path(__file__).parents[1] / "docs" / "pictures"
_TITLE = "## Beside other message queues"
_HOW = """### How to read the tables, and how to repeat them

Both sides run on this machine, with all their processes, and are asked in turn; each pair gives
one ratio, ours over theirs (of times and of CPU, theirs over ours), above 1 where we are better:
the median, and the range in parentheses. "Sustained" works have legs of ten seconds and more,
"burst" works of a second or two, which are answered out of memory. Sustained works are told twice:
until all is acknowledged, and until all can be consumed, since RocketMQ acknowledges messages
before it makes them ready, and falls behind where they are small. "Its BatchProducer" is
RocketMQ's own tool, by the rate that it prints; all other rows of RocketMQ are of our driver of
its client. Kafka's are of its own tools. All that was sent was consumed again and compared, but
for what RocketMQ's tool sent; of what Kafka's tools consume only count and bytes are known. "Lost"
is what of ours was refused, did not come, or came altered. "Of limit" is our figure as a fraction
of what bare gRPC calls or a bare gRPC stream do with the same bytes in the same run, without a
queue (of a work that flushes, of writing and flushing; of times, of what a lone bare call takes):
above 1 where messages that we send together would be calls of their own. Of 256 topics each is a
stream of its own in NATS, which is what has its own queue, limits and consumers there; "1 stream"
has them as subjects of one stream, which costs its server less. One at a time we send with
`busy_wait_s` of a millisecond, which is not the default: a core waits awake for the answer. By
default the last ratios were 0.41 to 0.57 beside RocketMQ and 0.51 to 0.57 beside aiokafka, 990 to
1,650 messages a second of ours: compare our numbers with the table's, not the ratios alone, for
theirs differ from run to run, too.

To repeat it: `make bench-peers`, below seventy minutes, or `make bench-peers QUICK=1`, some
five; `make bench-peers ONLY="kafka latency"` runs some peers or works, and the others stay as they
are. Who is taken from where, and how each is driven: [bench/peers](../bench/peers/README.md). Your
own cluster: [`ariane bench`](command-line.md#ariane-bench-latency)."""


class _Group(NamedTuple):
    """Rows that are shown together."""

    key: str
    title: str
    rows: list[dict[str, Any]]


def section() -> str:
    """The part of the page; empty while nothing was measured. Draws the pictures anew."""
    if not ROWS_PATH.exists():
        return ""
    rows = _by_work(json.loads(ROWS_PATH.read_text()))
    runs = json.loads(RUNS_PATH.read_text()) if RUNS_PATH.exists() else {}
    limits = [row for row in rows if row["against"] in LIMITS]
    peers = [row for row in rows if row["against"] not in LIMITS]
    parts = [_TITLE, *overview(rows, PICTURES_PATH), _HOW, *_measured_on(rows, runs)]
    for group in _groups(peers):
        picture = PICTURES_PATH / f"peers-{group.key}.svg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_text(picture_of(group.rows))
        parts.append(f"### {group.title}\n\n![{group.title}: ratios](pictures/{picture.name})")
        parts.append("\n".join(_table(group.rows, rows)))
    parts.extend((*losses(rows, runs), *_passages(runs)))
    if limits:
        parts.append(
            "### Beside what the machine can do\n\nThe same works beside the bytes of their bodies"
            " alone, without a queue:"
        )
        parts.append("\n".join(_limits_table(limits)))
    return "\n\n".join(parts)


def _by_work(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one work side by side, works as they first came, but those that last before."""
    works: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: not row["work"].startswith("sustained: ")):
        works.setdefault(row["work"], []).append(row)
    return [row for rows_of_work in works.values() for row in rows_of_work]


def _groups(rows: Sequence[dict[str, Any]]) -> Iterator[_Group]:
    groups = (
        _Group("sending", "Sending", []),
        _Group("consuming", "Consuming", []),
        _Group("latency", "End to end, and lateness of delayed messages", []),
        _Group("ourselves", "Beside ourselves, and beside what was agreed on", []),
    )
    for row in rows:
        groups[_group_number(row)].rows.append(row)
    return (group for group in groups if group.rows)


def _group_number(row: Mapping[str, Any]) -> int:
    if row["against"] == "-" or row["against"].startswith("ourselves"):
        return 3
    if row["unit"] == "ms":
        return 2
    return 1 if row["work"].startswith(("catch-up", "fan-out", "receiving", "Spark: ")) else 0


def _table(rows: Sequence[dict[str, Any]], every: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| Work | Beside | Ours | Theirs | Ratio | Floor | Goal | Of limit | Lost |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        reached = fraction(row, every)
        of_limit = "" if reached is None else f"{reached:.2g}"
        yield f"| {' | '.join((*_cells(row), of_limit, str(row['lost'])))} |"


def _limits_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| Work | Beside | Ours | Limit | Of limit | Floor | Goal | Lost |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        yield f"| {' | '.join((*_cells(row), str(row['lost'])))} |"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["work"],
        row["against"],
        f"{_figure(row['ours'])} {_unit(row)}",
        _figure(row["theirs"]),
        f"{row['ratio']:.2g} ({row['ratio_min']:.2g} to {row['ratio_max']:.2g})",
        _target(row["floor"]),
        _target(row["goal"]),
    )


def _measured_on(rows: Sequence[dict[str, Any]], runs: Mapping[str, Any]) -> Iterator[str]:
    if not rows:
        return
    machine = ", ".join(f"{name} {value}" for name, value in rows[0]["machine"].items())
    begin, end = min(row["when"] for row in rows), max(row["when"] for row in rows)
    pairs = sorted({row["pairs"] for row in rows})
    quick = [
        key for key, run in runs.items() if any(leg.get("quick") for leg in run.get("legs", ()))
    ]
    word = f"; of quick runs, with few messages and short warm-ups: {', '.join(quick)}"
    yield (
        f"{begin} to {end}; {machine}; pairs: {', '.join(map(str, pairs))}{word if quick else ''}."
    )


def _passages(runs: Mapping[str, Any]) -> Iterator[str]:
    """What they lost, who was skipped, and what nobody has run."""
    lists = (
        ("Theirs that were refused or did not come", _lost_by_them(runs)),
        ("Skipped here", _skipped(runs)),
        ("Not measured here", _not_measured(runs)),
    )
    for title, lines in lists:
        if found := list(lines):
            yield f"### {title}\n\n" + "\n".join(found)


def _lost_by_them(runs: Mapping[str, Any]) -> Iterator[str]:
    """Their figures count what came: whoever reads them is to know what did not."""
    for key, run in runs.items():
        lost: dict[str, int] = {}
        for leg in run.get("legs", ()):
            if leg["side"] == "theirs":
                missing = leg.get("lost", 0) + leg.get("failures", 0)
                lost[leg["work"]] = lost.get(leg["work"], 0) + missing
        yield from (f"- {key}, {work}: {count:,}" for work, count in lost.items() if count)


def _skipped(runs: Mapping[str, Any]) -> Iterator[str]:
    for key, run in runs.items():
        if "skipped" in run:
            yield f"- {key}: {run['skipped']}"
    for key, run in runs.items():
        yield from (f"- {key}, {work}: failed" for work in run.get("failed", {}))


def _not_measured(runs: Mapping[str, Any]) -> Iterator[str]:
    """Works of peers of which nothing is kept, not even why: nobody has run them."""
    for peer in PEERS:
        run = runs.get(peer.key, {})
        known = {*run.get("took_s", ()), *run.get("failed", ())}
        missing = [work for work in peer.parts if work not in known]
        if missing and "skipped" not in run:
            yield f"- {peer.key}: {', '.join(missing)}"


def _unit(row: Mapping[str, Any]) -> str:
    return "µs" if row["unit"] == "us" else str(row["unit"])


def _figure(value: float) -> str:
    """Whole where it is large, else three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _target(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:g}"
