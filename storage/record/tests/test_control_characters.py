import json
import unicodedata

import pytest

from ariane_record import IllegalProperty
from ariane_record.control_characters import (
    holds_control_character,
    properties_hold_control_character,
    shown,
    shown_json,
    shown_lines,
)
from ariane_record.testing.block_encoder import BlockEncoder

CONTROLS = [chr(code) for code in range(0x100) if unicodedata.category(chr(code)) == "Cc"]


def test_these_are_all_there_are():
    of_unicode = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc"]
    assert of_unicode == CONTROLS


@pytest.mark.parametrize("filling", ["", "ä" * 3000], ids=["few", "many"])
def test_each_is_found_wherever_it_stands(filling):
    for sign in CONTROLS:
        for text in (f"{sign}a", f"a{sign}b{filling}", f"{filling}a{sign}"):
            assert holds_control_character(text), ascii(sign)
            assert properties_hold_control_character(f"name\x01{text}\x02".encode()), ascii(sign)


def test_no_other_sign_is_taken_for_one():
    others = "".join(
        chr(code)
        for code in range(0x20, 0x30000)
        if not 0x7F <= code <= 0x9F and not 0xD800 <= code <= 0xDFFF
    )
    assert not holds_control_character(others)
    assert not properties_hold_control_character(others.encode())
    pairs = "näme\x01välue €\x02".encode() * 200
    assert not properties_hold_control_character(pairs)
    assert properties_hold_control_character(b"name\x02" + pairs)


@pytest.mark.parametrize(
    "part",
    [
        lambda text: {"tag": text},
        lambda text: {"keys": ["k", text]},
        lambda text: {"unique_id": text},
        lambda text: {"message_group": text},
        lambda text: {"properties": {"name": text}},
        lambda text: {"properties": {text: "value"}},
    ],
    ids=["tag", "key", "id", "group", "value", "name"],
)
def test_no_message_is_encoded_with_one(part):
    for sign in CONTROLS:
        encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
        with pytest.raises(IllegalProperty, match="control character"):
            encoder.add(b"body", born_timestamp_ms=1, **part(f"a{sign}b"))
        assert encoder.count == 0, ascii(sign)
        encoder.add(f"a{sign}b".encode(), born_timestamp_ms=1, **part("a\u00a0\u200bb€"))


def test_what_a_person_is_shown():
    trick = "\x1b]0;owned\x07 \x9b31m red\r\n\tturned \u202e round"
    assert shown(trick) == ("\\x1b]0;owned\\x07 \\x9b31m red\\r\\n\\tturned \\u202e round")
    assert shown_lines(trick) == "\\x1b]0;owned\\x07 \\x9b31m red\\r\n\tturned \\u202e round"
    assert shown("Grüße €\u00a0") == "Grüße €\u00a0"


def test_json_says_the_same_in_signs_that_do_nothing():
    value = {"a\x9b": ["\x1b\x7f\x00 \u2066 é", {"b": "".join(CONTROLS)}]}
    encoded = shown_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(encoded) == value
    assert not holds_control_character(encoded)
    assert "\u2066" not in encoded
    assert "é" in encoded
