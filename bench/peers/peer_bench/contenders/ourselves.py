"""Ourselves beside ourselves: what a setting costs, in the same pairs as peers."""

from __future__ import annotations

from functools import partial
from typing import Final

from peer_bench.contenders import ours
from peer_bench.peers import Part, Peer, Target

SYNC_FLUSH: Final = Peer(
    key="sync-flush",
    running=partial(ours.running, name="ourselves, flushing asynchronously"),
    ours=partial(ours.running, flush_mode="sync"),
    parts={
        "singles-64": Part(
            Target(0.5, 0.8),
            consume="chunks",
            title="single sends, 64 in flight, 1 KiB, flushing synchronously",
        )
    },
)
