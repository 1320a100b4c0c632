"""Who is faster at what, in one screen: a sentence, a picture, and a line for each peer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from of_limit import LIMITS
from ratio_picture import picture_of

_PICTURE = "peers-overview.svg"
_TOLD = ("msg/s", "rows/s")
_SHORTER = {
    "catch-up consuming, a listener call per message": "a listener call a message",
    "catch-up consuming, a listener call per batch of up to 32": "a listener call for 32",
    "catch-up consuming, columns": "columns out",
    "fan-out to 4 groups, a listener call per batch of up to 32": "fan-out to 4 groups",
    "receiving and acknowledging without owning queues": "receiving",
    "explicit batches of 1,000 objects": "batches of objects",
    "explicit batches of 250 objects": "batches of objects",
    "columns of": "columns in,",
    "single sends, one at a time": "one send at a time",
    "single sends, ": "sends, ",
    "Spark: ": "",
    ", 1 KiB": "",
    ", flushing synchronously": ", flushing",
    ", flushing asynchronously": "",
    ", both flushing synchronously": "",
    " quorum queues": "",
    "the bytes as a bare gRPC echo": "gRPC echo",
}
"""Of works and of whom they stand beside, for the first screen."""
_LEGEND = """Each bar is one work beside one peer: how many times as fast as they we are, by a
scale on which each line is twice the one before. Green: we are faster. Yellow: they are, and the
floor that was agreed on is reached. Red: the floor is missed. The blue line is the floor, the
dashed one the goal, the black one the range over the pairs. In the table, bold, is the ratio of
each work, by peer; messages of 1 KiB unless said. Every figure stands in the tables further
below."""


def overview(rows: Sequence[dict[str, Any]], pictures: Path) -> Iterator[str]:
    """The first screen, from all rows; draws its picture anew."""
    asked = sorted((row for row in rows if row["floor"] is not None), key=_by_ratio)
    if not asked:
        return
    floors = sum(row["ratio"] >= row["floor"] for row in asked)
    goals = sum(row["ratio"] >= row["goal"] for row in asked if row["goal"] is not None)
    beside = [row for row in rows if row["unit"] in _TOLD and _is_peer(row)]
    faster = sum(row["ratio"] >= 1 for row in beside)
    yield (
        f"**We are faster in {faster} of {len(beside)} comparisons of speed.** Of {len(asked)}"
        f" ratios that have a floor, {floors} reach it, and {goals} reach their goal."
        f" Lost in all runs: {sum(row['lost'] for row in rows)}."
    )
    pictures.mkdir(parents=True, exist_ok=True)
    (pictures / _PICTURE).write_text(picture_of([_shorter(row) for row in asked]))
    yield f"![All ratios that have a floor](pictures/{_PICTURE})"
    yield _LEGEND
    if beside:
        yield "\n".join(_by_peer(beside))


def _by_peer(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| Beside | We are faster at | They are faster at |"
    yield "|---|---|---|"
    for peer in dict.fromkeys(row["against"] for row in rows):
        of_peer = sorted((row for row in rows if row["against"] == peer), key=_by_ratio)
        ours = _works(row for row in of_peer if row["ratio"] >= 1)
        theirs = _works(row for row in of_peer if row["ratio"] < 1)
        yield f"| {peer} | {ours} | {theirs} |"


def _works(rows: Iterator[dict[str, Any]]) -> str:
    return "; ".join(f"{_short(row['work'])} **{row['ratio']:.2g}**" for row in rows)


def _short(work: str) -> str:
    for words, fewer in _SHORTER.items():
        work = work.replace(words, fewer)
    return work


def _by_ratio(row: dict[str, Any]) -> float:
    return -float(row["ratio"])


def _shorter(row: dict[str, Any]) -> dict[str, Any]:
    """A row with a label that fits beside its bar."""
    against = "what is allowed" if row["against"] == "-" else _short(row["against"])
    return {**row, "work": _short(row["work"]), "against": against}


def _is_peer(row: dict[str, Any]) -> bool:
    against = row["against"]
    return against != "-" and against not in LIMITS and not against.startswith("ourselves")
