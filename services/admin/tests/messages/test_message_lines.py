"""Lines in and out."""

import asyncio
import os

import pytest

from ariane_admin.errors import CommandFailed
from ariane_admin.messages.message_lines import MessageDefaults
from ariane_admin.terminal import line_input
from ariane_admin.terminal.line_input import iter_lines

DEFAULTS = MessageDefaults(
    "orders", tag="created", keys=("o-1",), message_group="c-7", properties={"a": "1", "b": "2"}
)


async def lines_of(written, *, in_pieces_of=1 << 16):
    reading, writing = os.pipe()
    try:
        read = [
            line
            async for lines in _feeding(reading, writing, written, in_pieces_of)
            for line in lines
        ]
    finally:
        os.close(reading)
    return read


async def _feeding(reading, writing, written, size):
    def write():
        for start in range(0, len(written), size):
            os.write(writing, written[start : start + size])
        os.close(writing)

    writer = asyncio.create_task(asyncio.to_thread(write))
    async for lines in iter_lines(reading):
        yield lines
    await writer


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
async def test_lines_are_cut_at_their_ends_only(size):
    written = b"one\ntwo\r\n\nfour and no end"
    assert await lines_of(written, in_pieces_of=size) == [b"one", b"two", b"", b"four and no end"]


def test_a_line_says_its_priority_or_has_that_of_the_command():
    defaults = MessageDefaults("orders", priority=3)
    assert defaults.from_text(b"x").priority == 3
    assert defaults.from_json(b'{"body": "x"}', 1).priority == 3
    assert defaults.from_json(b'{"body": "x", "priority": -1}', 1).priority == -1
    for wrong in (b'"high"', b"1.5", b"true"):
        with pytest.raises(CommandFailed, match="priority"):
            defaults.from_json(b'{"body": "x", "priority": %b}' % wrong, 1)


async def test_no_lines():
    assert await lines_of(b"") == []


async def test_a_line_comes_before_the_next_is_written():
    reading, writing = os.pipe()
    chunks = iter_lines(reading)
    os.write(writing, b"first\n")
    assert await anext(chunks) == [b"first"]
    os.close(writing)
    assert [lines async for lines in chunks] == []
    os.close(reading)


async def test_an_input_that_cannot_be_read_is_an_error_and_no_end(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        await anext(iter_lines(folder))
    os.close(folder)


async def test_a_line_without_an_end_is_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(line_input, "LINE_BYTES_MAX", 1 << 20)
    endless = os.open("/dev/zero", os.O_RDONLY)
    with pytest.raises(CommandFailed, match="a line of more than 1 MiB is no message"):
        await anext(iter_lines(endless))
    os.close(endless)


def test_a_text_line_is_a_body():
    message = DEFAULTS.from_text(b"first order")
    assert (message.topic, message.body, message.tag) == ("orders", b"first order", "created")
    assert (message.keys, message.message_group) == (("o-1",), "c-7")


def test_a_json_line_overrides_the_defaults():
    line = b'{"body": "x", "tag": "paid", "keys": ["o-2", "p"], "properties": {"b": "3"}}'
    message = DEFAULTS.from_json(line, 1)
    assert (message.body, message.tag, message.keys) == (b"x", "paid", ("o-2", "p"))
    assert message.message_group == "c-7"
    assert message.properties == {"a": "1", "b": "3"}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"not json", "no JSON: Expecting value at character 1"),
        (b'{"body": "\\ud83d"}', "half of a surrogate pair"),
        (b'{"body": "x", "deliver_at": "soon"}', "its deliver_at 'soon' is no time with a zone"),
        (b"[1]", "no JSON object"),
        (b'{"tag": "x"}', "no text named 'body'"),
        (b'{"body": 7}', "no text named 'body'"),
        (b'{"body": "x", "colour": "red"}', "unknown field 'colour'"),
        (b'{"body": "x", "keys": 7}', "keys are no list of texts"),
        (b'{"body": "x", "keys": "o-1"}', "keys are no list of texts"),
        (b'{"body": "x", "keys": {"o-1": 1}}', "keys are no list of texts"),
        (b'{"body": "x", "keys": [1]}', "keys are no list of texts"),
        (b'{"body": "x", "tag": 7}', "tag is no text"),
        (b'{"body": "x", "message_group": null}', "message_group is no text"),
        (b'{"body": "x", "properties": [["a", "b"]]}', "properties are no object of texts"),
        (b'{"body": "x", "properties": {"a": 1}}', "properties are no object of texts"),
        (b'{"body": "x", "deliver_at": 1795354069418}', "deliver_at is no text"),
        (b"[" * 100_000, "nested"),
        (b"\xff", "utf-8"),
    ],
)
def test_a_line_that_is_no_message_is_named(line, wrong):
    with pytest.raises(CommandFailed, match=f"line 1,200 is no message: .*{wrong}"):
        DEFAULTS.from_json(line, 1200)
