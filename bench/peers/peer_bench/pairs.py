"""What pairs of runs say: medians, and the ratio pair by pair.

Machines drift: they get warm, and others run on them. So nothing is compared across runs: ours and
theirs run in turn, each pair gives one ratio, and the median ratio is quoted with its range.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside theirs."""

    ours: float
    """Median of our figures."""
    theirs: float
    """Median of theirs."""
    ratio: float
    """Median of the ratios, pair by pair; larger is better for us."""
    ratio_min: float
    """The smallest of them."""
    ratio_max: float
    """The largest."""
    pairs: int
    """How many there were."""


def compare(measured: Sequence[tuple[float, float]], *, less_is_better: bool = False) -> Comparison:
    """Compare figures measured in pairs.

    Args:
        measured: Ours and theirs of each pair, all above zero.
        less_is_better: For latencies: the ratio is then theirs over ours.

    Raises:
        ValueError: There is no pair, or a figure is not above zero.
    """
    if not measured:
        raise ValueError("no pairs were measured")
    if any(figure <= 0 for pair in measured for figure in pair):
        raise ValueError(f"figures are above zero: {measured}")
    ratios = [theirs / ours if less_is_better else ours / theirs for ours, theirs in measured]
    return Comparison(
        ours=statistics.median(ours for ours, _ in measured),
        theirs=statistics.median(theirs for _, theirs in measured),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=len(measured),
    )
