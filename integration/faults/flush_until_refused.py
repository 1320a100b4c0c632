"""Appends and flushes one message after the other; says what became of each. Run under strace.

python flush_until_refused.py FOLDER MESSAGES
"""

from __future__ import annotations

import sys
from pathlib import Path

from numbered_writer import body_of, config

from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage import FlushMode, Store, StoreFull, StorePoisoned


def main(root: Path, count: int) -> None:
    """Print ``ready``, then ``acknowledged N`` or ``poisoned N`` for each message, then ``end``."""
    with Store.open(root, config(FlushMode.SYNC)) as store:
        print("ready", flush=True)
        for number in range(count):
            encoder = BlockEncoder("orders", size_bytes_max=1 << 17)
            encoder.add(body_of(number, "orders", 0, number), born_timestamp_ms=1)
            try:
                store.append(encoder.finish(), 0)
                store.flush()
                print(f"acknowledged {number}", flush=True)
            except (StorePoisoned, StoreFull) as refusal:
                print(f"{type(refusal).__name__} {number}", flush=True)
        readable = store.queue_bounds("orders", 0)[1]
        print(f"readable {readable}", flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
