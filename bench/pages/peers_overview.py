"""The first screen of the page: which side is faster at what, as a sentence, a picture, a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.pages.of_limit import LIMITS
from bench.pages.ratio_picture import picture_of

_PICTURE = "peers-overview.svg"
_SPEEDS = ("msg/s", "rows/s")
_SHORTER = {
    "catch-up consuming, a listener call per message": "consume, a call per message",
    "catch-up consuming, a listener call per batch of up to 32": "consume, a call per 32",
    "catch-up consuming, columns": "consume columns",
    "fan-out to 4 groups, a listener call per batch of up to 32": "fan-out to 4 groups",
    "receiving and acknowledging without owning queues": "receive and acknowledge",
    "explicit batches of 1,000 objects": "send batches",
    "explicit batches of 250 objects": "send batches",
    "columns of": "send columns of",
    "single sends, one at a time": "send one at a time",
    "Spark: ": "",
    ", 1 KiB": "",
    ", flushing synchronously": ", flushing",
    ", flushing asynchronously": "",
    ", both flushing synchronously": "",
    " quorum queues": "",
    "the bytes as a bare gRPC echo": "gRPC echo",
}
"""Shorter words for works and peers, for the first screen."""
_NEWER = {
    r"Kafka (4\.[0-3])\b": ("Kafka", "4.4", False),
    r"RabbitMQ quorum queues (3\.[\d.]+)": ("RabbitMQ", "4", True),
    r"Redis Streams ([67]\.[\d.]+)": ("Redis", "8, and Valkey 9", True),
}
"""What was measured, and what is newer; whether that is another major version."""
_LEGEND = """Each bar is one work compared with one peer. Its length is our speed divided by
theirs, on a scale where each line is twice the one before. Green: we are faster. Yellow: they
are faster, and the agreed floor is reached. Red: the floor is missed. The blue line is the
floor, the dashed line the goal, the black line the range over the pairs. The table gives the
ratio of each work in bold, by peer. Messages have 1 KiB unless a size is given. Every figure is
in the tables further below."""


def overview(rows: Sequence[dict[str, Any]], pictures: Path) -> Iterator[str]:
    """The first screen, from all rows; draws its picture anew."""
    asked = sorted((row for row in rows if row["floor"] is not None), key=_by_ratio)
    if not asked:
        return
    floors = sum(row["ratio"] >= row["floor"] for row in asked)
    goals = sum(row["ratio"] >= row["goal"] for row in asked if row["goal"] is not None)
    beside = compared(rows)
    counted = current(beside)
    faster = sum(row["ratio"] >= 1 for row in counted)
    yield (
        f"**We are faster in {faster} of {len(counted)} comparisons of speed.** Of {len(asked)}"
        f" ratios with a floor, {floors} reach it, and {goals} reach their goal."
        f" Messages that we lost in all runs: {sum(row['lost'] for row in rows)}."
    )
    if older := newer_ones(rows):
        yield older
    pictures.mkdir(parents=True, exist_ok=True)
    (pictures / _PICTURE).write_text(picture_of([_shorter(row) for row in asked]))
    yield f"![All ratios that have a floor](pictures/{_PICTURE})"
    yield _LEGEND
    if beside:
        yield "\n".join(_by_peer(beside))


def compared(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that compare our speed with that of another message queue."""
    return [row for row in rows if row["unit"] in _SPEEDS and _is_peer(row)]


def current(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of peers of which there is no newer major version."""
    outdated = [pattern for pattern, (_, _, is_major) in _NEWER.items() if is_major]
    return [row for row in rows if not any(re.search(each, row["against"]) for each in outdated)]


def newer_ones(rows: Sequence[dict[str, Any]]) -> str:
    """A sentence about peers of which there are newer versions than measured; empty for none."""
    told = {
        f"{name} {found[1]} (there is {version}{'; not counted above' if is_major else ''})"
        for pattern, (name, version, is_major) in _NEWER.items()
        for row in rows
        if (found := re.search(pattern, row["against"]))
    }
    if not told:
        return ""
    return f"Measured were older versions of {', '.join(sorted(told))}: newer ones may be faster."


def _by_peer(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| Compared with | We are faster at | They are faster at |"
    yield "|---|---|---|"
    for peer in dict.fromkeys(row["against"] for row in rows):
        of_peer = sorted((row for row in rows if row["against"] == peer), key=_by_ratio)
        ours = _works(row for row in of_peer if row["ratio"] >= 1)
        theirs = _works(row for row in of_peer if row["ratio"] < 1)
        yield f"| {peer} | {ours} | {theirs} |"


def _works(rows: Iterator[dict[str, Any]]) -> str:
    return "; ".join(f"{short(row['work'])} **{row['ratio']:.2g}**" for row in rows)


def short(work: str) -> str:
    """A work, or what it was compared with, in fewer words."""
    for words, fewer in _SHORTER.items():
        work = work.replace(words, fewer)
    return work


def _by_ratio(row: dict[str, Any]) -> float:
    return -float(row["ratio"])


def _shorter(row: dict[str, Any]) -> dict[str, Any]:
    """A row with a label that fits beside its bar."""
    against = "what is allowed" if row["against"] == "-" else short(row["against"])
    return {**row, "work": short(row["work"]), "against": against}


def _is_peer(row: dict[str, Any]) -> bool:
    against = row["against"]
    return against != "-" and against not in LIMITS and not against.startswith("ourselves")
