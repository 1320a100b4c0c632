"""The common bytes of plain messages of one topic: messages with a body and perhaps a tag.

The parts of their records that are known in advance::

    header | body | topic, length of the properties, sequence, tag, name of the id | id | end
                    ---------------------------------------------------------------      ---
                                      TagShape                              PLAIN_RECORD_END
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ariane_ordering import java_string_hash
from ariane_record.checksums.java_hash import tag_code
from ariane_record.encoding.block import EMPTY_CRC_PROPERTY
from ariane_record.layout import (
    HEADER_BYTES,
    PROPERTY_NAME_END,
    PROPERTY_VALUE_END,
    TOPIC_V1_BYTES_MAX,
    PropertyName,
)
from ariane_record.single.producer_sequence import SEQUENCE_BYTES

TAG_BYTES_MAX: Final = 256
"""Messages with a longer tag are not plain."""

TAGS_KEPT_MAX: Final = 4096
"""The most tags of a topic whose shapes are kept."""

PLAIN_RECORD_END: Final = PROPERTY_VALUE_END + EMPTY_CRC_PROPERTY
"""The bytes after the id."""

_HASH_FACTOR: Final = 31
_WORD: Final = 1 << 32
_LENGTH_BYTES: Final = 2
_ID_NAME: Final = PropertyName.UNIQUE_ID.encode() + PROPERTY_NAME_END


class TagShape(NamedTuple):
    """The common bytes of plain messages of one topic and tag.

    Attributes:
        before_id: The bytes between body and id, without a sequence.
        before_sequence: With a sequence: the bytes between body and sequence.
        behind_sequence: With a sequence: the bytes between sequence and id.
        overhead_bytes: Bytes of a record besides its body, without a sequence.
        code: Hash of the tag.
        tag: The tag; empty for none.
    """

    before_id: bytes
    before_sequence: bytes
    behind_sequence: bytes
    overhead_bytes: int
    code: int
    tag: str


class PlainTopic:
    """The common bytes of plain messages of one topic.

    Attributes:
        name: The topic.
        hash_before_id: The contribution of the topic's name to an id's index hash: a word.
        shapes: The shapes by tag, of tags used so far.
    """

    __slots__ = ("_id_bytes", "_topic_part", "hash_before_id", "name", "shapes")

    def __init__(self, name: str, *, id_bytes: int) -> None:
        encoded = name.encode()
        self.name = name
        self.shapes: dict[str, TagShape] = {}
        shift = pow(_HASH_FACTOR, id_bytes, _WORD)
        self.hash_before_id = java_string_hash(name + "#") * shift % _WORD
        self._id_bytes = id_bytes
        self._topic_part = b""
        if len(encoded) <= TOPIC_V1_BYTES_MAX:
            self._topic_part = len(encoded).to_bytes(1) + encoded

    def shape_of(self, tag: str) -> TagShape | None:
        """The shape of messages of a tag; None if they are not plain, or the topic is too long.

        Args:
            tag: The tag, or an empty text; without 0x01 and 0x02.
        """
        if tag in self.shapes:
            return self.shapes[tag]
        if not self._topic_part:
            return None
        try:
            # Added, not formatted: the formatted text of an Enum member may differ from its value.
            tag = tag + ""
            pair = (PropertyName.TAGS + "\x01" + tag + "\x02").encode() if tag else b""
        except UnicodeEncodeError:
            return None
        if len(pair) > TAG_BYTES_MAX:
            return None
        if len(self.shapes) >= TAGS_KEPT_MAX:
            self.shapes.clear()
        behind = pair + _ID_NAME
        length = len(behind) + self._id_bytes + len(PLAIN_RECORD_END)
        before_id = self._before_pairs(length) + behind
        shape = self.shapes[tag] = TagShape(
            before_id=before_id,
            before_sequence=self._before_pairs(SEQUENCE_BYTES + length),
            behind_sequence=behind,
            overhead_bytes=HEADER_BYTES + len(before_id) + self._id_bytes + len(PLAIN_RECORD_END),
            code=tag_code(tag),
            tag=tag,
        )
        return shape

    def _before_pairs(self, length: int) -> bytes:
        """The bytes between body and properties of this length."""
        return self._topic_part + length.to_bytes(_LENGTH_BYTES)
