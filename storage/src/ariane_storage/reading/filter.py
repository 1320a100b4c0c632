"""Which messages a reader wants: what a read of a queue asks, first of entries, then of records.

::

    entries of the consume queue    e e e e e e e e e e
      entries_mask                  . x x . . x . x . x      cheap: 20 bytes each
    records that are gathered         r r     r   r   r
      records_mask                    x .     x   .   x      only if ``looks_at_records``
    what the reader gets              r       r       r      and how far it has come

What both stages leave out is passed over for good: the read goes on behind it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.columns import RecordColumns
from ariane_storage.queues.consume_queue_entry import Entries


class Filter(Protocol):
    """A condition on messages, evaluated on many of them at once.

    Filters do not change: the same message passes or does not, whenever it is asked about. They do
    not raise; a message that a condition cannot be evaluated for does not pass.
    """

    @property
    def looks_at_records(self) -> bool:
        """Whether ``records_mask`` has to be asked; false where entries tell everything."""
        ...

    def entries_mask(self, entries: Entries) -> NDArray[np.bool_]:
        """Which messages may be wanted, by their entries; never too few.

        Args:
            entries: Of the consume queue, ``ENTRY[count]``, holes among them.

        Returns:
            One for each entry, bool[count].
        """
        ...

    def records_mask(self, records: RecordColumns) -> NDArray[np.bool_]:
        """Which messages are wanted, by their records.

        Args:
            records: Those whose entries have passed, in the order of the queue; at least one. Their
                properties by column are ``records.properties``.

        Returns:
            One for each record, bool[count].
        """
        ...
