"""Flags of a broker for tests: files of megabytes, whatever else fills the disk."""

from __future__ import annotations

from typing import Any, Final

SMALL_STORE: Final = (
    *("--segment-bytes", str(64 << 20)),
    # An index file of the usual size takes 400 MiB as soon as one message has a key.
    *("--index-slots", "10000"),
    *("--index-items", "40000"),
    # How full the machine's disk is, is not a test's matter.
    *("--disk-clean-ratio", "0.97"),
    *("--disk-force-ratio", "0.98"),
    *("--disk-refuse-ratio", "0.99"),
)

SMALL_STORE_SETTINGS: Final[dict[str, Any]] = {
    "segment_bytes": 6 << 20,
    "index_slots": 1000,
    "index_items": 4000,
    "grace_s": 0.1,
    "disk_clean_ratio": 0.97,
    "disk_force_ratio": 0.98,
    "disk_refuse_ratio": 0.99,
}
"""Likewise, as settings of a broker that a test composes itself; it also ends at once."""
