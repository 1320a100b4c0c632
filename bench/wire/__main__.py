"""The price of a call: our gRPC beside grpcio's, in turns, client and server a process each.

    .venv/bin/python -m bench.wire [--pairs 9] [--quick]

Both run on asyncio's loop, and then both on uvloop's. What is compared is the rate (for small calls
beside a stream that fills the connection, their p99), and the processor time of both ends for one
call. What idle connections cost is the memory of the server before and after so many have come.
"""

from __future__ import annotations

import json
import socket
import statistics
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench.measure import Row, program
from bench.wire.peer import LARGE, Work

PEER = (sys.executable, "-m", "bench.wire.peer")
LOOPS = ("asyncio", "uvloop")
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">IBI", 4, 0, 0)
"""A client's first octets: the preface and empty SETTINGS."""
SETTINGS_ACK = struct.pack(">IBI", 4, 1, 0)


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: what is done, what of it is compared, and what it should reach."""

    name: str
    kind: str
    in_flight: int
    unit: str
    figure: Callable[[dict[str, float]], float]
    more_is_better: bool = True
    goal: float | None = None


def rate(said: dict[str, float]) -> float:
    """Calls a second."""
    return said["count"] / said["seconds"]


def gigabytes(said: dict[str, float]) -> float:
    """GB/s, there and back counted once."""
    return rate(said) * len(LARGE) / 1e9


def p99_ms(said: dict[str, float]) -> float:
    """The p99 in ms."""
    return said["p99_us"] / 1e3


KINDS = (
    Kind("unary, 1.1 KB, one at a time", "unary", 1, "calls/s", rate, goal=5),
    Kind("unary, 1.1 KB, 64 in flight", "unary", 64, "calls/s", rate, goal=9),
    Kind("1.1 KB back and forth on a stream", "stream", 1, "messages/s", rate),
    Kind("64 KiB back and forth, 8 under way", "bulk", 1, "GB/s", gigabytes),
    Kind(
        "unary beside a stream that fills the connection, p99",
        "beside",
        1,
        "ms",
        p99_ms,
        more_is_better=False,
    ),
)


class Server:
    """A server as a process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = self._line().strip()

    def usage(self) -> dict[str, float]:
        """What it has used so far."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has ended"
        return line


@contextmanager
def serving(runtime: str, loop: str) -> Iterator[Server]:
    """A server of a runtime, on a loop."""
    said = json.dumps({"runtime": runtime, "loop": loop})
    command = (*PEER, "serve", said)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


def run(runtime: str, loop: str, kind: Kind, seconds: float) -> dict[str, float]:
    """Run one work once; what the client says, and the server's processor time."""
    with serving(runtime, loop) as server:
        work = Work(runtime, loop, server.address, kind.kind, kind.in_flight, seconds)
        before = server.usage()["cpu_s"]
        command = (*PEER, "call", work.to_json())
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        said = json.loads(done.stdout)
        # The client has warmed up for a quarter of its time.
        used = (server.usage()["cpu_s"] - before) / 1.25
        said["client_us"] = said["cpu_s"] / said["count"] * 1e6
        said["server_us"] = used / said["count"] * 1e6
    return said


def row_of(kind: Kind, loop: str, *, pairs: int, seconds: float) -> Row:
    """A work by both runtimes in turns."""
    measured = []
    for number in range(pairs):
        both = {}
        # Who comes first changes: the second finds a warmer machine.
        for runtime in ("wire", "grpcio") if number % 2 else ("grpcio", "wire"):
            both[runtime] = run(runtime, loop, kind, seconds)
        measured.append(both)
    ours = [kind.figure(both["wire"]) for both in measured]
    theirs = [kind.figure(both["grpcio"]) for both in measured]
    ratios = [a / b if kind.more_is_better else b / a for a, b in zip(ours, theirs, strict=True)]
    extra = {
        f"{words} {end}": statistics.median(both[runtime][key] for both in measured)
        for runtime, end in (("wire", ""), ("grpcio", "of grpcio"))
        for key, words in (
            ("p50_us", "µs p50"),
            ("client_us", "µs CPU of the client a call"),
            ("server_us", "µs CPU of the server a call"),
        )
    }
    return Row(
        work=f"{kind.name}, {loop}",
        ours=statistics.median(ours),
        unit=kind.unit,
        against="grpc.aio on the same loop",
        theirs=statistics.median(theirs),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=pairs,
        goal=kind.goal,
        extra={name.strip(): value for name, value in extra.items()},
    )


def idle_octets(runtime: str, count: int) -> float:
    """What each of so many idle connections costs the server's memory."""
    with serving(runtime, "asyncio") as server, ExitStack() as held:
        host, port = server.address.split(":")
        # What the first ones cost once is no cost of each.
        connect_idle(held, host, int(port), 50)
        before = server.usage()["rss_octets"]
        connect_idle(held, host, int(port), count)
        return (server.usage()["rss_octets"] - before) / count


def connect_idle(held: ExitStack, host: str, port: int, count: int) -> None:
    """Connect and do the handshake, so many times."""
    for _ in range(count):
        connection = held.enter_context(socket.create_connection((host, port)))
        connection.sendall(GREETING)
        # Its SETTINGS come first, whatever else comes.
        assert connection.recv(9, socket.MSG_WAITALL)[3:4] == b"\x04"
        connection.sendall(SETTINGS_ACK)


def idle_row(count: int, *, pairs: int) -> Row:
    """Idle connections of both runtimes, in turns."""
    ours, theirs = [], []
    for _ in range(pairs):
        ours.append(idle_octets("wire", count) / 1024)
        theirs.append(idle_octets("grpcio", count) / 1024)
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return Row(
        work=f"memory of each of {count:,} idle connections",
        ours=statistics.median(ours),
        unit="KiB",
        against="grpc.aio",
        theirs=statistics.median(theirs),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=pairs,
    )


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows of this benchmark."""
    seconds = 1.0 if quick else 2.0
    measured = [
        row_of(kind, loop, pairs=pairs, seconds=seconds) for kind in KINDS for loop in LOOPS
    ]
    counts = (1_000,) if quick else (1_000, 9_000)
    return measured + [idle_row(count, pairs=min(pairs, 3)) for count in counts]


if __name__ == "__main__":
    program("wire", __doc__, rows, pairs=9)
