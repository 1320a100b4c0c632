"""Keys read from the properties of many records at once are those of each record."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from ariane_record import decode_properties
from ariane_record.checksums.java_hash import key_hash, key_hashes_behind, topic_word
from ariane_storage.index.record_keys import keys_of

NAMES = st.sampled_from(["UNIQ_KEY", "KEYS", "XKEYS", "TAGS", "UNIQ_KEYS", "Q", "K"])
VALUES = st.sampled_from(["", "a", "7F00-01", "7F00-02", "one two", " ", "größer", "x" * 300])
PROPERTIES = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda pairs: "".join(f"{name}\1{value}\2" for name, value in pairs).encode()
)


def expected(properties):
    """The keys that readers find in each record."""
    for owner, one in enumerate(properties):
        values = decode_properties(one)
        keys = [values.get("UNIQ_KEY", ""), *values.get("KEYS", "").split(" ")]
        if "TAGS" in values:
            keys.append("T#" + values["TAGS"])
        yield from ((owner, key_hash("flights", key)) for key in keys if key)


def found(properties, lengths):
    keys = keys_of(b"".join(properties), lengths, len(properties))
    hashes = key_hashes_behind(topic_word("flights"), keys.words, keys.lengths)
    return list(zip(keys.owners.tolist(), hashes.tolist(), strict=True))


@given(st.lists(PROPERTIES, min_size=1, max_size=6), st.sampled_from([1, 5]))
@example([b"UNIQ_KEY\1a\2KEYS\1b\2", b"UNIQ_KEY\1c\2KEYS\1d\2"], 5)
@example([b"UNIQ_KEY\1\2UNIQ_KEY\1a\2"], 5)
@example([b"UNIQ_KEY\1a\2UNIQ_KEY\1b\2KEYS\1c\2KEYS\1d\2"], 5)
@example([b"KEYS\1a\2KEYS\1\2"], 5)
@example([b"UNIQ_KEY\1unended"], 1)
@example([b"TAGS\1a\2UNIQ_KEY\1b\2"], 5)
@example([b"KEYS\1a b\2"], 5)
@example([b"KEYS\1a\2", b"KEYS\1 \2"], 1)
def test_keys_by_column_are_those_of_each_record(properties, times):
    properties = properties * times
    wanted = list(expected(properties))
    lengths = np.array(list(map(len, properties)), np.int64)
    assert found(properties, lengths) == wanted
    if len(set(lengths.tolist())) == 1:
        assert found(properties, int(lengths[0])) == wanted


def test_keys_of_more_than_one_chunk_are_hashed_too():
    keys = [f"{place:05d}" * 8 + "x" * (place % 2) for place in range(3000)]
    properties = [f"UNIQ_KEY\1{key}\2".encode() for key in keys]
    lengths = np.array(list(map(len, properties)), np.int64)
    assert found(properties, lengths) == [
        (owner, key_hash("flights", key)) for owner, key in enumerate(keys)
    ]
