"""Messages as columns to encode: Arrow arrays, checked as a whole and converted to one form.

===============  ===========================================================  ======================
column           types                                                        null or empty
===============  ===========================================================  ======================
body             binary, string (large, view, fixed size)                     null refused
tag              string, or a dictionary of strings                           no tag
keys             list of strings, or string for one key                       no keys
message_group    string, or a dictionary of strings                           no order
properties       map of string to string                                      none
flag             integer that fits 32 bits                                    0
===============  ===========================================================  ======================

Everything that ``TopicProperties.encode`` refuses in a message is refused here in a column; the
error names the first row.
Arrow is an extra of this distribution (``ariane-record[arrow]``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ariane_record.encoding.columns.arrow_texts import bounds_of, lengths_of, octets_of
from ariane_record.encoding.columns.given_columns import (
    Lists,
    Tags,
    checked_bodies,
    checked_flags,
    checked_groups,
    checked_keys,
    checked_properties,
    checked_tags,
)
from ariane_record.errors import IllegalColumn
from ariane_record.layout import CRC_PROPERTY_BYTES, PRODUCER_PROPERTIES_BYTES_MAX, PropertyName
from ariane_record.single.compression import BodyPacking
from ariane_record.single.producer_sequence import SEQUENCE_BYTES

_UNIQUE_ID_PAIR_BYTES_MAX: Final = len(PropertyName.UNIQUE_ID) + 2 + 56
_OWN_BYTES_MAX: Final = CRC_PROPERTY_BYTES + SEQUENCE_BYTES + _UNIQUE_ID_PAIR_BYTES_MAX
_PAIR_BYTES: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class MessageColumns:
    """Checked columns of messages; ``None`` for a field that no message has."""

    body: Any
    """Bodies: binary or large binary."""
    tag: Tags | None = None
    """Tags."""
    keys: Lists | None = None
    """Keys."""
    message_group: Any = None
    """Groups: string, empty for none."""
    properties: Lists | None = None
    """Names and values."""
    flag: NDArray[np.int32] | None = None
    """Flags: int32."""
    system_flag: NDArray[np.int32] | None = None
    """How bodies are compressed (``layout.SystemFlag``): int32. Not a given column, but a result of
    ``packed_columns``."""

    @classmethod
    def of(
        cls,
        body: Any,
        *,
        tag: Any = None,
        keys: Any = None,
        message_group: Any = None,
        properties: Any = None,
        flag: Any = None,
    ) -> Self:
        """Check Arrow arrays of equal length, and convert them to one form; bodies are not copied.

        Args:
            body: Bodies; for the types of all columns see above.
            tag: Tags.
            keys: Keys; an empty one in a list is refused.
            message_group: Groups.
            properties: The application's own pairs.
            flag: Flags.

        Raises:
            IllegalColumn: A column or row cannot become messages.
        """
        columns = cls(
            checked_bodies(body),
            tag=None if tag is None else checked_tags(tag),
            keys=None if keys is None else checked_keys(keys),
            message_group=None if message_group is None else checked_groups(message_group),
            properties=None if properties is None else checked_properties(properties),
            flag=None if flag is None else checked_flags(flag),
        )
        columns._check_lengths()
        return columns

    def __len__(self) -> int:
        return len(self.body)

    @property
    def have_properties(self) -> bool:
        """Whether messages have any properties."""
        kept = (self.tag, self.keys, self.message_group, self.properties)
        return any(each is not None for each in kept)

    @property
    def property_bytes(self) -> NDArray[np.int64]:
        """Bytes of each row's own properties, without those of the system: int64."""
        total = np.zeros(len(self), np.int64)
        if self.properties is not None:
            names, values = self.properties.children
            total += _sums(lengths_of(names) + lengths_of(values) + _PAIR_BYTES, self.properties)
        if self.keys is not None:
            # A separator after each key except the last, and both ends of the pair around them.
            joined = _sums(lengths_of(self.keys.children[0]) + 1, self.keys)
            total += (joined + len(PropertyName.KEYS) + _PAIR_BYTES - 1) * (self.keys.counts > 0)
        if self.tag is not None:
            total += _pair_bytes(PropertyName.TAGS, lengths_of(self.tag.names))[self.tag.places]
        if self.message_group is not None:
            total += _pair_bytes(PropertyName.MESSAGE_GROUP, lengths_of(self.message_group))
        return total

    def lone_bodies(self) -> list[bytes] | None:
        """The bodies one by one, if messages have no other fields; else None."""
        if self.have_properties or self.flag is not None or self.system_flag is not None:
            return None
        bodies: list[bytes] = self.body.to_pylist()
        return bodies

    def slice(self, start: int, stop: int) -> Self:
        """Some neighbouring rows, without a copy."""
        return self._chosen(
            lambda array: array.slice(start, stop - start),
            lambda lists: lists.slice(start, stop),
            lambda numbers: numbers[start:stop],
        )

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Any rows, in the order given."""
        places = pa.array(rows)
        return self._chosen(
            lambda array: array.take(places),
            lambda lists: lists.take(rows),
            lambda numbers: numbers[rows],
        )

    def _chosen(
        self,
        of_array: Callable[[Any], Any],
        of_lists: Callable[[Lists], Lists],
        of_numbers: Callable[[NDArray[np.int32]], NDArray[np.int32]],
    ) -> Self:
        """Some rows: each column by what chooses them in columns of its kind."""
        tag, flag, system_flag = self.tag, self.flag, self.system_flag
        return type(self)(
            of_array(self.body),
            tag=tag and Tags(tag.names, of_numbers(tag.places)),
            keys=self.keys and of_lists(self.keys),
            message_group=None if self.message_group is None else of_array(self.message_group),
            properties=self.properties and of_lists(self.properties),
            flag=None if flag is None else of_numbers(flag),
            system_flag=None if system_flag is None else of_numbers(system_flag),
        )

    def _check_lengths(self) -> None:
        if not self.have_properties:
            return
        taken = self.property_bytes + _OWN_BYTES_MAX
        if len(taken) and int(taken.max()) > PRODUCER_PROPERTIES_BYTES_MAX:
            raise IllegalColumn(
                "properties",
                f"tag, keys, group and properties take {int(taken.max()) - _OWN_BYTES_MAX} bytes;"
                f" {PRODUCER_PROPERTIES_BYTES_MAX - _OWN_BYTES_MAX} are allowed",
                int(np.argmax(taken)),
            )


def _pair_bytes(name: str, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return (lengths + len(name) + _PAIR_BYTES) * (lengths > 0)


def _sums(numbers: NDArray[np.int64], lists: Lists) -> NDArray[np.int64]:
    """The sum of the numbers of each list's elements."""
    upto = np.concatenate(([0], np.cumsum(numbers)))
    return np.diff(upto[lists.bounds])


def packed_columns(messages: MessageColumns, packing: BodyPacking) -> MessageColumns:
    """The messages with large bodies compressed, except bodies that would grow.

    The codec is called once for each large body, from C; all other work is done by column.

    Args:
        messages: Messages without compression; their bodies together below 2 GiB.
        packing: The format.
    """
    if packing.is_off:
        return messages
    lengths = lengths_of(messages.body)
    rows = np.flatnonzero(lengths >= packing.size_bytes_min)
    if not len(rows):
        return messages
    bounds = bounds_of(messages.body)
    octets = octets_of(messages.body).data
    spans = map(slice, bounds[rows].tolist(), bounds[rows + 1].tolist())
    bodies = np.fromiter(map(packing.compress, map(octets.__getitem__, spans)), object, len(rows))
    smaller = np.fromiter(map(len, bodies), np.int64, len(rows)) < lengths[rows]
    rows, bodies = rows[smaller], bodies[smaller]
    is_packed = np.zeros(len(lengths), np.bool_)
    is_packed[rows] = True
    return replace(
        messages,
        body=pc.replace_with_mask(
            messages.body, pa.array(is_packed), pa.array(bodies, messages.body.type)
        ),
        system_flag=is_packed * np.int32(packing.system_flag),
    )
