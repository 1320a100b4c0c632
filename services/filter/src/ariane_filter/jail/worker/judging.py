"""The interface of every kind of filter inside a worker."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class ModuleRefused(Exception):
    """The module is not a filter."""


class VerdictMissing(Exception):
    """The filter has no verdict on a message of a batch."""

    def __init__(self, cause: str, position: int | None = None) -> None:
        super().__init__(cause)
        self.position = position
        """Position in the batch of the message at fault; None if it is not a single one."""


class LoadedFilter(Protocol):
    """A filter that is loaded."""

    def judge(self, records: bytes, sizes: NDArray[np.int32]) -> bytes:
        """A byte for each record, 1 to deliver it and 0 to leave it out."""
