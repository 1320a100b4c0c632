"""Helpers for tests of the store and of its users: a faulty disk, a model, a fixed clock."""

from ariane_storage.testing.faulty_disk import FaultyDisk, PowerLost
from ariane_storage.testing.filters import Saying, Tagged
from ariane_storage.testing.fixed_clock import FixedClock
from ariane_storage.testing.model_store import ModelMessage, ModelStore
from ariane_storage.testing.retention import apply_retention
from ariane_storage.testing.small import BORN_MS, block_of, small_config

__all__ = [
    "BORN_MS",
    "FaultyDisk",
    "FixedClock",
    "ModelMessage",
    "ModelStore",
    "PowerLost",
    "Saying",
    "Tagged",
    "apply_retention",
    "block_of",
    "small_config",
]
