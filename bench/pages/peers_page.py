"""The part of the page that compares us with other message queues.

Tables, pictures, losses and skipped peers are made from ``results/latest.json`` and
``peers.json``, which ``make bench-peers`` keeps (and ``bench/spark``, of Spark's connector
to Kafka); every figure in the text is one of theirs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import RESULTS_PATH
from bench.pages.of_limit import LIMITS, fraction
from bench.pages.peers_losses import losses
from bench.pages.peers_overview import overview
from bench.pages.ratio_picture import picture_of

sys.path.append(str(Path(__file__).parents[1] / "peers"))

from peer_bench.registry import PEERS

ROWS_PATH = RESULTS_PATH / "latest.json"
RUNS_PATH = RESULTS_PATH / "peers.json"
PICTURES_PATH = Path(__file__).parents[2] / "docs" / "pictures"
_TITLE = "## Compared with other message queues"
_HOW = """### How to read the tables, and how to repeat them

**Pairs.** Both sides run on this machine, with all their processes, and take turns. Each pair of
runs gives one ratio: our figure divided by theirs; for times and CPU, theirs divided by ours.
Above 1, we are better. The tables show the median ratio and, in parentheses, its range.

**Bursts and sustained works.** A sustained work runs for ten seconds or more. A burst runs for a
second or two, which the memory absorbs. A sustained work is timed twice: until all messages are
acknowledged, and until all can be consumed. RocketMQ acknowledges a message before consumers can
have it, and falls behind when messages are small.

**Clients.** "Its BatchProducer" is RocketMQ's own tool, with the rate that it prints. All other
rows of RocketMQ use our driver of its Java client. The rows of Kafka with "its tools" use
Kafka's own tools.

**Verification.** All messages that were sent are consumed again and compared. There are two
exceptions: the messages of RocketMQ's tool, and those that Kafka's tools consume, of which only
count and bytes are known. "Lost" counts our messages that were refused, did not arrive, or
arrived altered.

**Of limit** is our figure as a fraction of what bare gRPC calls, or a bare gRPC stream, do with
the same bytes in the same run, without a queue. For works that flush, the limit is writing and
flushing the bytes; for times, it is one bare call. The fraction exceeds 1 where we send messages
together that the limit sends in one call each.

**256 topics.** In NATS, each of the 256 topics is a stream of its own, because a stream has its
own queue, limits and consumers. In the rows with "1 stream" they are subjects of one stream,
which costs its server less. Compared with one topic, batches to 256 topics are slower on purpose:
the first batches in a row to a topic are divided among its queues, so that all consumers of a
group get some, and here no topic gets many in a row. With `spread_count=0`, which sends a batch to
one queue, 256 topics took 0.97 times as many messages a second as one topic.

**Days.** Rows are of several days, which are listed below. On November 29 and 30, gRPC's transport
and the path of a batch changed, and calls of small rows of many topics go beside one another only
since then. A new run measures Kafka 4.4.

To repeat everything, run `make bench-peers`, which takes less than seventy-five minutes, or `make
bench-peers QUICK=1`, which takes five. `make bench-peers ONLY="kafka latency"` runs some peers
or works and keeps the other rows. [bench/peers](../bench/peers/README.md) says where each peer
comes from and how it is driven. To measure your own cluster, use [`ariane
bench`](command-line.md#ariane-bench-latency)."""


class _Group(NamedTuple):
    """Rows that are shown together."""

    key: str
    title: str
    rows: list[dict[str, Any]]


def section() -> str:
    """The part of the page, empty before the first measurement; draws the pictures anew."""
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
            "### Compared with what the machine can do\n\nThe same works, compared with moving the"
            " bytes of their bodies alone, without a queue:"
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
        _Group("ourselves", "Compared with ourselves, and with agreed limits", []),
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
    yield "| Work | Compared with | Ours | Theirs | Ratio | Floor | Goal | Of limit | Lost |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        reached = fraction(row, every)
        of_limit = "" if reached is None else f"{reached:.2g}"
        yield f"| {' | '.join((*_cells(row), of_limit, str(row['lost'])))} |"


def _limits_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| Work | Compared with | Ours | Limit | Of limit | Floor | Goal | Lost |"
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
        key for key, run in runs.items() if any(side["quick"] for side in run.get("sides", ()))
    ]
    word = f"; quick runs, with few messages and short warm-ups: {', '.join(quick)}"
    yield (
        f"{begin} to {end}; {machine}; pairs: {', '.join(map(str, pairs))}{word if quick else ''}."
    )
    days: dict[str, set[str]] = {}
    for row in rows:
        days.setdefault(row["when"][:10], set()).add(row["against"])
    if len(days) > 1:
        yield "\n".join(f"- {day}: {'; '.join(sorted(days[day] - {'-'}))}" for day in sorted(days))


def _passages(runs: Mapping[str, Any]) -> Iterator[str]:
    """What peers lost, which peers were skipped, and which works were never run."""
    lists = (
        ("Messages that peers refused or lost", _lost_by_them(runs)),
        ("Skipped here", _skipped(runs)),
        ("Not measured here", _not_measured(runs)),
    )
    for title, lines in lists:
        if found := list(lines):
            yield f"### {title}\n\n" + "\n".join(found)


def _lost_by_them(runs: Mapping[str, Any]) -> Iterator[str]:
    """Messages that peers lost: their figures count only those that came."""
    for key, run in runs.items():
        theirs = (side for side in run.get("sides", ()) if side["side"] == "theirs")
        yield from (f"- {key}, {s['work']}: {s['lost']:,}" for s in theirs if s["lost"])


def _skipped(runs: Mapping[str, Any]) -> Iterator[str]:
    for key, run in runs.items():
        if "skipped" in run:
            yield f"- {key}: {run['skipped']}"
    for key, run in runs.items():
        yield from (f"- {key}, {work}: failed" for work in run.get("failed", {}))


def _not_measured(runs: Mapping[str, Any]) -> Iterator[str]:
    """Works of peers without any result, not even a failure: they were never run."""
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
