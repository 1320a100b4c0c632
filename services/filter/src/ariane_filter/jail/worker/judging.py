"""What every kind of filter offers inside a worker."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class ModuleRefused(Exception):
    """A module that is no filter."""


class VerdictMissing(Exception):
    """A filter that did not tell about every message of a batch whether it is wanted.

    Attributes:
        position: The place in the batch of the message to blame; None where it is no single one.
    """

    def __init__(self, cause: str, position: int | None = None) -> None:
        super().__init__(cause)
        self.position = position


class LoadedFilter(Protocol):
    """A filter that is ready."""

    def judge(self, records: bytes, sizes: NDArray[np.int32]) -> bytes:
        """A byte for each record, 1 to deliver it and 0 to leave it out."""
