"""The commands of docs/receiving.md, where grpcurl is there to run them."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "docs" / "receiving.md"
GRPCURL = shutil.which("grpcurl")


def commands():
    """Request and method of each call on the page."""
    page = PAGE.read_text()
    return re.findall(r"grpcurl -plaintext -d '(.*?)' \\\n\s+127.0.0.1:10911 (\S+)", page)


async def grpcurl(address, request, method):
    """The answers of one call."""
    process = await asyncio.create_subprocess_exec(
        *(GRPCURL, "-plaintext", "-d", request, str(address), method),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    decoder, text, answers = json.JSONDecoder(), printed.decode().strip(), []
    while text:
        answer, end = decoder.raw_decode(text)
        answers.append(answer)
        text = text[end:].strip()
    return answers


@pytest.mark.skipif(GRPCURL is None, reason="grpcurl is not installed")
async def test_grpcurl_consumes_and_acknowledges(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"one espresso", b"one tea"])
    (receiving, acknowledging) = commands()
    (answer,) = await grpcurl(broker.address, *receiving)
    handles = [message["receipt_handle"] for message in answer["messages"]]
    assert len(handles) == 2
    request, method = acknowledging
    request = request.replace('["..."]', json.dumps(handles))
    (done,) = await grpcurl(broker.address, request, method)
    assert done == {"results": [{}, {}]}
    assert await grpcurl(broker.address, *receiving) == []


def test_the_page_names_both_calls():
    assert [method.rpartition("/")[2] for _, method in commands()] == [
        "ReceiveMessages",
        "AckMessages",
    ]
