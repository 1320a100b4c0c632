"""Strategies for all parts of a record, including odd values that the format allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ariane_record.encoding.message_properties import OWN_ARGUMENTS
from ariane_record.encoding.record_table import RecordTable
from ariane_record.layout import HOST_FLAGS, Host, SystemFlag
from ariane_record.single.message import RecordFields
from ariane_record.testing.block_encoder import BlockEncoder

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)

_LETTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))
_TEXT = st.text(_LETTERS, min_size=1, max_size=9)
_KEY = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters=" "),
    min_size=1,
    max_size=40,
)
_NAME_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


def topic_names() -> st.SearchStrategy[str]:
    """Legal topics, and such as are long enough for a V2 record."""
    short = st.text(_NAME_ALPHABET, min_size=1, max_size=127)
    return st.one_of(short, st.integers(128, 300).map(lambda length: "t" * length))


def body_bytes() -> st.SearchStrategy[bytes]:
    """Bodies, empty ones included."""
    return st.binary(max_size=200)


def property_maps() -> st.SearchStrategy[dict[str, str]]:
    """Properties that a user sets."""
    names = _TEXT.filter(lambda name: name not in OWN_ARGUMENTS)
    return st.dictionaries(names, _TEXT, max_size=5)


def hosts() -> st.SearchStrategy[Host]:
    """Addresses of both families, with their ports."""
    ips = st.ip_addresses().map(str)
    return st.tuples(ips, st.integers(0, 65535))


def system_flags() -> st.SearchStrategy[int]:
    """System flags without the bits that describe other fields: hosts, and the body."""
    return st.integers(0, 0xFFF).map(lambda flag: flag & ~(HOST_FLAGS | SystemFlag.COMPRESSED))


def record_fields(topics: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[RecordFields]:
    """All that a record can say."""
    own = st.fixed_dictionaries(
        {},
        optional={
            "KEYS": st.lists(_KEY, min_size=1, max_size=4).map(" ".join),
            "TAGS": _TEXT,
            "UNIQ_KEY": _KEY,
            "__SHARDINGKEY": _TEXT,
            "TIMER_DELIVER_MS": st.integers(0, 10**13).map(str),
        },
    )
    properties = st.tuples(property_maps(), own).map(lambda parts: parts[0] | parts[1])
    return st.builds(
        RecordFields,
        topic=topic_names() if topics is None else topics,
        body=body_bytes(),
        properties=properties,
        queue_id=INT32,
        queue_offset=INT64,
        commit_log_offset=INT64,
        flag=INT32,
        system_flag=system_flags(),
        born_timestamp_ms=st.integers(0, 1 << 42),
        born_host=hosts(),
        store_timestamp_ms=st.integers(0, 1 << 42),
        store_host=hosts(),
        attempts=st.integers(0, 1000),
        half_offset=INT64,
        body_crc=st.just(0),
    )


def message_arguments() -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of ``BlockEncoder.add``."""
    return st.fixed_dictionaries(
        {"body": body_bytes(), "born_timestamp_ms": st.integers(0, 1 << 42)},
        optional={
            "tag": st.just("") | _TEXT,
            "keys": st.lists(_KEY, max_size=4),
            "unique_id": st.just("") | _KEY,
            "properties": st.none() | property_maps(),
            "message_group": st.just("") | _TEXT,
            "flag": INT32,
            "system_flag": system_flags(),
        },
    )


@st.composite
def blocks(draw: st.DrawFn, *, count_min: int = 0) -> RecordTable:
    """Blocks as a producer makes them."""
    encoder = BlockEncoder(draw(topic_names()), size_bytes_max=1 << 20)
    for arguments in draw(st.lists(message_arguments(), min_size=count_min, max_size=8)):
        encoder.add(**arguments)
    return encoder.finish()
