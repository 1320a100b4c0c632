"""A process that asks brokers for all that Spark does, and says how many connections it has then.

A new one, because what other tests have opened stays open, and is opened again where a broker has
closed it.
"""

import contextlib
import json
import sys
from collections import Counter
from pathlib import Path

from ariane_spark.calls.connection import check_target, connect_once, connect_transactions_once
from ariane_spark.calls.sink_batches import Sink
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.options.write_options import write_options


def connections_to(addresses):
    """How many connections this process has to each of some addresses of this machine."""
    own = set()
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(str(handle.readlink()))
    ports = Counter()
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state, *_, inode = line.split()[:10]
        if state == "01" and f"socket:[{inode}]" in own:
            ports[int(remote.rpartition(":")[2], 16)] += 1
    return [ports[int(address.rpartition(":")[2])] for address in addresses]


def main(endpoints, topic, *brokers):
    """Print, as JSON: the messages that each query saw, a sink's home, and the connections."""
    given = {"endpoints": endpoints, "topic": topic}
    counts = []
    for number in range(3):
        # Of three queries, each with two micro-batches.
        options = read_options(given | {"numRetries": str(number)}, Use.STREAM_READ)
        for _ in range(2):
            bounds = connect_once(options).bounds([topic])
            counts.append(sum(kept.latest for kept in bounds.values()))
    writing = {"deliveryGuarantee": "exactly-once", "writeId": f"w-{topic}"}
    calls = connect_transactions_once(write_options(given | writing))
    check_target(given | writing)
    home = calls.home_of(Sink(f"write/{topic}", topic))
    sys.stdout.write(json.dumps([counts, home, connections_to(brokers)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
