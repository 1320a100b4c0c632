"""What an honest client of our gRPC feels while another one is hostile: p99 beside each attack.

    .venv/bin/python -m bench.wire.hostile [--seconds 3] [--rounds 3] [--only NAME ...]

The attacks are those of ``wire/tests/hostile``, each at the rate that it states there; when the
server ends the attacker's connection, it comes again at once. The attacker is a process of its own,
pinned to the last core. The honest client makes small calls one at a time on one connection; beside
each p99 stands the same without an attacker, measured right before.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

HOSTILE = Path(__file__).parents[2] / "wire" / "tests" / "hostile"
sys.path += [str(HOSTILE), str(HOSTILE.parent / "peers")]

from attacks import ATTACKS, ECHO, Attack  # noqa: E402 - after the path.
from probe import Probe  # noqa: E402
from raw_frames import RawPeer  # noqa: E402

import ariane_wire  # noqa: E402
from bench.measure import Row, table_of, write_results  # noqa: E402

GOAL = 0.1
"""The p99 beside an attack is at most ten times the one beside nothing."""
SMALL = bytes(1_100)
TICK_S = 0.01
"""The attacker says at once what is due in so long."""


async def serve() -> None:
    """Serve until this process is ended."""
    server = ariane_wire.server(handlers=[Probe()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def attack(name: str, address: str) -> None:
    """Be hostile until this process is ended."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    said = ATTACKS[name]
    print("attacking", flush=True)
    while True:
        await attack_once(said, address)


async def attack_once(said: Attack, address: str) -> None:
    """One connection, until the server ends it."""
    if said.introduces:
        peer = await RawPeer.introduced(address, *said.settings)
    else:
        peer = await RawPeer.connect(address)
    async with peer:
        if not said.reads:
            peer.stop_reading()
        peer.write(said.opening)
        units = 0
        begin = time.perf_counter()
        while not peer.is_lost:
            due = int((time.perf_counter() - begin) * said.per_s)
            peer.write(b"".join(map(said.unit, range(units, due))))
            units = max(units, due)
            peer.frames.clear()
            await asyncio.sleep(TICK_S)


async def be_honest(address: str, seconds: float) -> dict[str, float]:
    """Small calls one at a time: p50 and p99 in ms."""
    async with ariane_wire.insecure_channel(address) as channel:
        echo = channel.unary_unary(ECHO)
        for _ in range(100):
            await echo(SMALL)
        taken = []
        begin = time.perf_counter()
        end = begin + seconds
        while begin < end:
            await echo(SMALL)
            now = time.perf_counter()
            taken.append(now - begin)
            begin = now
    taken.sort()
    return {"p50": taken[len(taken) // 2] * 1e3, "p99": taken[int(len(taken) * 0.99)] * 1e3}


@contextmanager
def started(*arguments: str):
    """Another part of this program as a process; its first line."""
    command = (sys.executable, "-m", "bench.wire.hostile", *arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def row_of(name: str, *, rounds: int, seconds: float) -> Row:
    """One attack, in turns with none."""
    alone, beside = [], []
    for _ in range(rounds):
        with started("serve") as port:
            address = f"127.0.0.1:{port}"
            alone.append(asyncio.run(be_honest(address, seconds)))
            with started("attack", name, address):
                beside.append(asyncio.run(be_honest(address, seconds)))
    ratios = [one["p99"] / other["p99"] for one, other in zip(alone, beside, strict=True)]
    return Row(
        work=f"{name}, {ATTACKS[name].per_s:,} a second",
        ours=statistics.median(each["p99"] for each in beside),
        unit="ms p99",
        against="the same beside nothing",
        theirs=statistics.median(each["p99"] for each in alone),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=rounds,
        goal=GOAL,
        extra={"ms p50": statistics.median(each["p50"] for each in beside)},
    )


def main() -> None:
    """Be a part, or measure, print and keep."""
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve())
        return
    if sys.argv[1:2] == ["attack"]:
        asyncio.run(attack(*sys.argv[2:4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each part (default 3)")
    parser.add_argument("--rounds", type=int, default=3, help="of each attack (default 3)")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, help="these attacks, nothing kept")
    said = parser.parse_args()
    names = said.only or list(ATTACKS)
    measured = [row_of(name, rounds=said.rounds, seconds=said.seconds) for name in names]
    print(table_of(measured))
    if not said.only:
        print(f"\nkept in {write_results('wire_hostile', measured)}")


if __name__ == "__main__":
    main()
