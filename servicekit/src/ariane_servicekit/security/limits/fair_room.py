"""Who gives up how much of a full table: those who have more than an equal share.

Whoever makes room looks at all entries, so a tenth goes at once, where so many are more than equal
shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

Owner = TypeVar("Owner")


def outgoing(owners: Sequence[Owner], count_max: int) -> Iterator[int]:
    """The places of the entries that go so that no more than so many are left.

    Args:
        owners: Whose each entry is, the one unused for longest first.
        count_max: How many entries there may be.
    """
    over = len(owners) - count_max
    if over <= 0:
        return iter(())
    counts = Counter(owners)
    share = -(-count_max // len(counts))
    spare = sum(count - share for count in counts.values() if count > share)
    wanted = over + count_max // 10
    if spare < over:
        # Nobody takes another one's room: the oldest go, whosever they are.
        return iter(range(wanted))
    going = given_up(counts, min(spare, wanted))
    return _oldest(owners, going)


def _oldest(owners: Sequence[Owner], going: dict[Owner, int]) -> Iterator[int]:
    """The places of so many entries of each, the oldest."""
    for place, owner in enumerate(owners):
        if going.get(owner):
            going[owner] -= 1
            yield place


def given_up(counts: Mapping[Owner, int], wanted: int) -> dict[Owner, int]:
    """How many each gives up, of those who have most, so that exactly so many go.

    Args:
        counts: How many entries each has.
        wanted: How many go, at most as many as there are.
    """
    largest = sorted(counts, key=counts.__getitem__, reverse=True)
    held = [counts[owner] for owner in largest]
    for number, (total, below) in enumerate(zip(accumulate(held), [*held[1:], 0], strict=True), 1):
        if total - number * below >= wanted:
            level, kept_more = divmod(total - wanted, number)
            going = {
                owner: count - level - (place < kept_more)
                for place, (owner, count) in enumerate(zip(largest[:number], held, strict=False))
            }
            return {owner: count for owner, count in going.items() if count}
    return dict(counts)
