"""Memory is ready before it is written: in this segment, and in the one behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ariane_storage import Store, StoreConfig
from ariane_storage.testing import block_of

SEGMENT_BYTES = 1 << 22
AHEAD_BYTES = 1 << 20
SMAPS = Path("/proc/self/smaps")


def resident_bytes(segment: Path) -> int:
    """Bytes of a mapped file that this process can touch without a page fault."""
    ours = False
    for line in SMAPS.read_text().splitlines():
        name, _, rest = line.partition(":")
        if "-" in name.split(" ", 1)[0]:
            ours = line.endswith(str(segment))
        elif ours and name == "Rss":
            return int(rest.split()[0]) * 1024
    return 0


@pytest.mark.skipif(not SMAPS.exists(), reason="only Linux says what is resident")
def test_pages_ahead_of_the_writer_are_resident(tmp_path):
    config = StoreConfig(
        segment_bytes=SEGMENT_BYTES,
        prefault_bytes=AHEAD_BYTES,
        index_slots=100,
        index_items=1000,
    )
    first, second = (
        tmp_path / "store" / "commitlog" / f"{start:020d}" for start in (0, SEGMENT_BYTES)
    )
    with Store.open(tmp_path / "store", config) as store:
        store.append_block(block_of("flights", [b"x"]), 0)
        assert resident_bytes(first) < AHEAD_BYTES
        store.prepare_next_segment()
        assert resident_bytes(first) >= AHEAD_BYTES
        assert resident_bytes(second) == 0
        while store.max_offset < SEGMENT_BYTES - AHEAD_BYTES // 2:
            store.append_block(block_of("flights", [b"x" * 1000] * 100), 0)
        store.prepare_next_segment()
        assert resident_bytes(first) >= SEGMENT_BYTES - 4096
        # Nothing is written there yet.
        assert store.max_offset < SEGMENT_BYTES
        assert resident_bytes(second) >= AHEAD_BYTES // 4
