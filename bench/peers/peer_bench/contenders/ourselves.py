"""Ourselves beside ourselves: what a setting costs, in the same pairs as peers."""

from __future__ import annotations

from functools import partial
from typing import Final

from peer_bench.contenders import ours
from peer_bench.peers import Part, Peer, Target

SYNC_TITLE: Final = "single sends, 64 in flight, 1 KiB, flushing synchronously"

SYNC_FLUSH: Final = Peer(
    key="sync-flush",
    running=partial(ours.running, name="ourselves, flushing asynchronously"),
    ours=partial(ours.running, flush_mode="sync"),
    parts={
        "singles-64": Part(
            Target(0.5, 0.8),
            consume="chunks",
            title=SYNC_TITLE,
            quick=True,
        )
    },
)

ONE_TOPIC: Final = Peer(
    key="one-topic",
    running=partial(ours.running, name="ourselves, 1 topic"),
    parts={
        "topics-batches": Part(Target(0.84, 0.97), topics=1, consume="chunks"),
        "topics-singles": Part(Target(0.84, 0.97), topics=1, consume="chunks"),
    },
    # Making the topics of every leg takes longer than sending to them.
    start_s=50.0,
)
