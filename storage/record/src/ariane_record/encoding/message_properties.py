"""The encoded properties of a message: all bytes of its record besides header, body and id.

They are known when the message is taken in; its id, and its row's place in a stream, only when it
is sent. So the bytes are kept in two parts, around the id::

    header | body | topic, length of properties, sequence, pairs, name of id | id | group, end
                    --------------------------------------------------------      ----------
                                          before_id                               behind_id

Most messages have at most a tag; messages of one topic and tag share one ``EncodedProperties``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from ariane_ordering import java_string_hash
from ariane_record.checksums.java_hash import key_hashes, tag_code
from ariane_record.control_characters import are_pairs
from ariane_record.errors import IllegalProperty, RecordTooLarge
from ariane_record.layout import (
    EMPTY_CRC_PROPERTY,
    HEADER_BYTES,
    HOST_FLAGS,
    KEY_SEPARATOR,
    PRODUCER_PROPERTIES_BYTES_MAX,
    PROPERTY_NAME_END,
    PROPERTY_VALUE_END,
    PropertyName,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.producer_sequence import SEQUENCE_BYTES

KEYS_MAX: Final = 255
"""The most keys of one message in the index, including its unique id."""

OWN_ARGUMENTS: Final = frozenset(
    {
        PropertyName.KEYS,
        PropertyName.TAGS,
        PropertyName.UNIQUE_ID,
        PropertyName.MESSAGE_GROUP,
        PropertyName.CHECKSUM,
        PropertyName.PRODUCER_SEQUENCE,
    }
)
"""Properties that are arguments of their own, so that no column can contradict its record."""

TAGS_KEPT_MAX: Final = 4096
"""The most tags of a topic whose properties are kept."""

TAG_KEPT_LENGTH_MAX: Final = 256
"""The properties of longer tags are not kept."""

RECORD_END: Final = PROPERTY_VALUE_END + EMPTY_CRC_PROPERTY
"""The bytes after the id, without a message group."""

_HASH_FACTOR: Final = 31
_WORD: Final = 1 << 32
_LENGTH_BYTES: Final = 2
_ID_NAME: Final = PropertyName.UNIQUE_ID.encode() + PROPERTY_NAME_END
_GROUP_NAME: Final = PropertyName.MESSAGE_GROUP.encode() + PROPERTY_NAME_END
_INT32: Final = Struct(">i")
_OWN_OR_EMPTY: Final = OWN_ARGUMENTS | {""}
_NAME_END: Final = PROPERTY_NAME_END.decode()
_VALUE_END: Final = PROPERTY_VALUE_END.decode()
_join_pair = _NAME_END.join
_join_pairs = _VALUE_END.join


class EncodedProperties(NamedTuple):
    """The bytes of a record around its id, and what its columns say of them."""

    before_id: bytes
    """The bytes between body and id, without a sequence."""
    before_sequence: bytes
    """With a sequence: the bytes between body and sequence."""
    behind_sequence: bytes
    """With a sequence: the bytes between sequence and id."""
    behind_id: bytes
    """The bytes after the id."""
    overhead_bytes: int
    """Bytes of a record besides its body, without a sequence."""
    tag_code: int
    """Hash of the tag."""
    key_hashes: tuple[int, ...] = ()
    """Index hashes of the keys, without the id."""
    flag: int = 0
    """The flag of the application."""
    system_flag: int = 0
    """Bits of ``SystemFlag``, except those of the hosts."""
    unique_id: str = ""
    """The id that the message has from elsewhere, which is then a part of the bytes before the id;
    empty if it gets its id when it is sent."""


class TopicProperties:
    """Encodes properties of messages of one topic."""

    __slots__ = (
        "_id_bytes",
        "_length_max",
        "_topic_part",
        "hash_before_id",
        "magic",
        "name",
        "of_tags",
    )

    def __init__(self, name: str, *, id_bytes: int, sequenced: bool) -> None:
        """Start without tags.

        Args:
            name: The topic.
            id_bytes: Characters of each unique id.
            sequenced: Whether any record may get a sequence, and needs room for it.

        Raises:
            RecordTooLarge: The topic does not fit into its length field.
        """
        self.name = name
        """The topic."""
        self.of_tags: dict[str, EncodedProperties] = {}
        """The properties of messages with nothing but a tag, by tag, of tags used so far."""
        magic, self._topic_part = counted_topic(name)
        self.magic = magic
        """The magic code of its records."""
        shift = pow(_HASH_FACTOR, id_bytes, _WORD)
        self.hash_before_id = java_string_hash(name + "#") * shift % _WORD
        """The contribution of the topic's name to an id's index hash: a word."""
        self._id_bytes = id_bytes
        self._length_max = PRODUCER_PROPERTIES_BYTES_MAX - (SEQUENCE_BYTES if sequenced else 0)

    def of_tag(self, tag: str) -> EncodedProperties:
        """The properties of a message with nothing but a tag, or an empty text for none.

        Raises:
            IllegalProperty: The format cannot hold the tag.
            RecordTooLarge: The tag fits into no record.
        """
        kept = self.of_tags.get(tag)
        if kept is not None:
            return kept
        properties = self.encode(tag=tag)
        if len(tag) <= TAG_KEPT_LENGTH_MAX:
            if len(self.of_tags) >= TAGS_KEPT_MAX:
                self.of_tags.clear()
            # Added, not formatted: the formatted text of an Enum member may differ from its value.
            self.of_tags[tag + ""] = properties
        return properties

    def encode(
        self,
        *,
        tag: str = "",
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        message_group: str = "",
        flag: int = 0,
        system_flag: int = 0,
        unique_id: str = "",
    ) -> EncodedProperties:
        """Encode the properties of a message.

        Args:
            tag: The one coarse label; empty for none.
            keys: Keys by which the message can be found; no spaces inside.
            properties: Further properties, except the ones that are arguments here.
            message_group: The ordering key; empty for none.
            flag: Free for the application, 32 bits, signed.
            system_flag: Bits of ``SystemFlag``, except those of the hosts.
            unique_id: The id that the message has already; empty for a new one.

        Raises:
            IllegalProperty: The format cannot hold a property, tag or key.
            RecordTooLarge: The properties fit into no record, or the keys not into the index.
            struct.error: The flag has more than 32 bits.
        """
        pairs = encode_pairs(properties, keys, tag, unique_id, message_group)
        behind_id, id_bytes = RECORD_END, self._id_bytes
        if message_group:
            group = _GROUP_NAME + message_group.encode() + PROPERTY_VALUE_END
            pairs = pairs[: -len(group)]
            behind_id = PROPERTY_VALUE_END + group + EMPTY_CRC_PROPERTY
        if unique_id:
            # The pair of the id is among the others, but for its end.
            behind_sequence, id_bytes = pairs[: -len(PROPERTY_VALUE_END)], 0
        else:
            behind_sequence = pairs + _ID_NAME
        length = len(behind_sequence) + id_bytes + len(behind_id)
        if length > self._length_max:
            raise RecordTooLarge(f"properties of {length} bytes; {self._length_max} are allowed")
        if len(keys) >= KEYS_MAX:
            raise RecordTooLarge(f"{len(keys) + 1} keys; the index takes {KEYS_MAX}")
        if system_flag & HOST_FLAGS:
            raise ValueError("the host bits of the system flag are not for the producer to set")
        _INT32.pack(flag)
        before_id = self._before_pairs(length) + behind_sequence
        return EncodedProperties(
            before_id=before_id,
            before_sequence=self._before_pairs(SEQUENCE_BYTES + length),
            behind_sequence=behind_sequence,
            behind_id=behind_id,
            overhead_bytes=HEADER_BYTES + len(before_id) + id_bytes + len(behind_id),
            tag_code=tag_code(tag),
            key_hashes=tuple(key_hashes(self.name, keys).tolist()) if keys else (),
            flag=flag,
            system_flag=system_flag,
            unique_id=unique_id,
        )

    def _before_pairs(self, length: int) -> bytes:
        """The bytes between body and properties of this length."""
        return self._topic_part + length.to_bytes(_LENGTH_BYTES)


def encode_pairs(  # noqa: C901 - five optional parts, one after the other.
    properties: Mapping[str, str] | None,
    keys: Sequence[str],
    tag: str,
    unique_id: str,
    message_group: str,
) -> bytes:
    """All properties of one message, encoded: the user's first.

    This is the largest cost of a message for its producer, so all properties are one text that is
    checked and encoded as a whole.
    """
    if properties:
        if not _OWN_OR_EMPTY.isdisjoint(properties) or "" in properties.values():
            raise _illegal_pair(properties)
        text = _join_pairs(map(_join_pair, properties.items())) + _VALUE_END
        count = len(properties)
    else:
        text = ""
        count = 0
    if keys:
        if isinstance(keys, str):
            raise TypeError("keys is a sequence of texts, not one text")
        joined = KEY_SEPARATOR.join(keys)
        if joined.count(KEY_SEPARATOR) != len(keys) - 1 or "" in keys:
            raise IllegalProperty(f"keys {keys!r}: a key is not empty and holds no space")
        text = f"{text}KEYS\x01{joined}\x02"
        count += 1
    if tag:
        # Added, not formatted: the formatted text of an Enum member may differ from its value.
        text += "TAGS\x01" + tag + _VALUE_END
        count += 1
    if unique_id:
        text = f"{text}UNIQ_KEY\x01{unique_id}\x02"
        count += 1
    if message_group:
        text += "__SHARDINGKEY\x01" + message_group + _VALUE_END
        count += 1
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise IllegalProperty(f"no Unicode text: {error}") from error
    if not are_pairs(encoded, count):
        raise IllegalProperty("a property, tag, key, id or group holds a control character")
    return encoded


def _illegal_pair(properties: Mapping[str, str]) -> IllegalProperty:
    """The error of illegal names, or else of illegal values."""
    names = OWN_ARGUMENTS.intersection(properties)
    if names:
        return IllegalProperty(f"{', '.join(sorted(names))}: not a property to set by name")
    return IllegalProperty("empty names and values are not kept")


def index_keys(unique_id: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of a stored message that are in the index."""
    every = (unique_id, *keys) if unique_id else keys
    return every[:KEYS_MAX]
