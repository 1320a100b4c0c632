"""Filters of readers: evaluated first on queue entries, then on records.

::

    entries of the consume queue    e e e e e e e e e e
      entries_mask                  . x x . . x . x . x      cheap: 20 bytes each
    records that are gathered         r r     r   r   r
      records_mask                    x .     x   .   x      only if ``looks_per_record``
    what the reader gets              r       r       r      and the next offset

A message that either stage leaves out is skipped for good: the read continues behind it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.columns import RecordColumns
from ariane_storage.queues.consume_queue_entry import Entries


class Filter(Protocol):
    """A condition on messages, evaluated on many of them at once.

    A filter does not change: the same message always passes or never does. It does not raise; a
    message for which the condition cannot be evaluated does not pass.
    """

    @property
    def looks_per_record(self) -> int:
        """How many comparisons ``records_mask`` makes with each record; 0: entries are enough.

        A read examines correspondingly fewer bytes, so that it takes no longer.
        """
        ...

    def entries_mask(self, entries: Entries) -> NDArray[np.bool_]:
        """Which messages may be wanted, by their entries; must not leave out a wanted one.

        Args:
            entries: Consume-queue entries, ``ENTRY[count]``, including holes.

        Returns:
            One for each entry, bool[count].
        """
        ...

    def records_mask(self, records: RecordColumns) -> NDArray[np.bool_]:
        """Which messages are wanted, by their records.

        Args:
            records: The records of entries that passed, in the order of the queue; at least one.
                Their properties by column are ``records.properties``.

        Returns:
            One for each record, bool[count].
        """
        ...
