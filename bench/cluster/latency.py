"""End to end: from the moment at which a message was due to the call of the listener.

    .venv/bin/python -m bench.cluster.latency [--runs 3] [--seconds 8] [--quick]

Open loop. A sender in a process of its own follows a schedule that is fixed beforehand, and waits
for no answer; a message that leaves late, because something before it took long, is measured from
when it was due. So a pause is counted in every message that it delays. Name server, broker and
listener are processes of their own too, and all of them share the machine.

The schedule is a burst every millisecond: 1 message of 1 KiB at 1,000 a second, 10 at 10,000.
Beside each percentile stands the same one of an empty call to that broker, one at a time: a message
is at least one call's way there and back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path

from ariane_sdk import ClusterClient
from ariane_servicekit.running.processes import LocalCluster
from bench.cluster.latency_peer import Schedule
from bench.measure import Row, table_of, write_results

RATES = (1_000, 10_000)
PERCENTILES = ("p50", "p99", "p99.9", "max")
BODY_BYTES = 1024
WARM_UP_S = 1.0
PEER = (sys.executable, "-m", "bench.cluster.latency_peer")


async def run_peers(schedule: Schedule) -> tuple[dict, dict]:
    """Run one schedule; what listener and sender say."""
    listener = await start_peer("listen", schedule)
    try:
        assert listener.stdout is not None
        assert await listener.stdout.readline() == b"listening\n", "the listener did not begin"
        sender = await start_peer("send", schedule)
        sent, heard = await asyncio.gather(said(sender), said(listener))
    finally:
        if listener.returncode is None:
            listener.kill()
            await listener.wait()
    return heard, sent


async def start_peer(end: str, schedule: Schedule) -> asyncio.subprocess.Process:
    """Start one end."""
    return await asyncio.create_subprocess_exec(
        *PEER, end, schedule.to_json(), stdout=asyncio.subprocess.PIPE
    )


async def said(peer: asyncio.subprocess.Process) -> dict:
    """What an end says when it is done."""
    out, _ = await peer.communicate()
    assert peer.returncode == 0, f"an end of the benchmark ended with status {peer.returncode}"
    return json.loads(out)


async def measure(*, runs: int, seconds: float) -> list[Row]:
    """Run every rate so many times, in turn, at one broker."""
    heard: dict[int, list[tuple[dict, dict]]] = {rate: [] for rate in RATES}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            LocalCluster(Path(folder)) as cluster,
            ClusterClient(cluster.name_servers) as client,
        ):
            for run in range(runs):
                for rate in RATES:
                    topic = f"latency-{rate}-{run}"
                    await client.create_topic(topic)
                    schedule = Schedule(
                        name_servers=cluster.name_servers,
                        broker_address=cluster.brokers[0].address,
                        topic=topic,
                        messages_per_s=rate,
                        warm_up_s=WARM_UP_S,
                        measured_s=seconds,
                        body_bytes=BODY_BYTES,
                    )
                    heard[rate].append(await run_peers(schedule))
    return [row_of(rate, name, heard[rate]) for rate in RATES for name in PERCENTILES]


def row_of(rate: int, percentile: str, heard: list[tuple[dict, dict]]) -> Row:
    """One percentile of one rate, over its runs."""
    ours = [listener["latency_ms"][percentile] for listener, _ in heard]
    empty = [sender["empty_call_ms"][percentile] for _, sender in heard]
    ratios = [theirs / mine for mine, theirs in zip(ours, empty, strict=True)]
    return Row(
        work=f"1 KiB, {rate:,} messages/s, {percentile}",
        ours=statistics.median(ours),
        unit="ms",
        against="an empty call, one at a time",
        theirs=statistics.median(empty),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=len(heard),
        extra={
            "ms in the best run": min(ours),
            "ms in the worst": max(ours),
            "ms the sender was late at most": max(sender["late_ms"] for _, sender in heard),
        },
    )


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows of this benchmark; a pair takes as long as many of other ones."""
    return asyncio.run(measure(runs=1 if quick else min(pairs, 3), seconds=2.0 if quick else 8.0))


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="runs of each rate (default 3)")
    parser.add_argument("--seconds", type=float, default=8.0, help="measured in each (default 8)")
    parser.add_argument("--quick", action="store_true", help="one short run, nothing kept")
    arguments = parser.parse_args()
    if arguments.quick:
        print(table_of(rows(pairs=1, quick=True)))
        return
    measured = asyncio.run(measure(runs=arguments.runs, seconds=arguments.seconds))
    print(table_of(measured))
    print(f"\nkept in {write_results('latency', measured)}")


if __name__ == "__main__":
    main()
