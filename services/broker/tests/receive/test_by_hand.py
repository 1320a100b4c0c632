"""The commands of README.md and docs/receiving.md, by grpcurl and by the generated client."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest
from google.protobuf.json_format import Parse

from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane_testkit.programs.go_programs import GoProgramUnavailable, go_program

ROOT = Path(__file__).parents[4]
PAGES = [ROOT / "docs" / "receiving.md", ROOT / "README.md"]
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"


def commands(page):
    """Request and method of each call on the page."""
    said = r"grpcurl -plaintext -d '(.*?)' \\\n\s+127.0.0.1:10911 (\S+)"
    return re.findall(said, page.read_text())


@pytest.fixture(scope="module")
def program():
    """Grpcurl: this machine's, or else built once by Go."""
    if found := shutil.which("grpcurl"):
        return found
    try:
        return str(go_program(GRPCURL, ROOT / ".cache" / "go-programs"))
    except GoProgramUnavailable as missing:
        pytest.skip(str(missing))


async def grpcurl(program, address, request, method):
    """The answers of one call."""
    process = await asyncio.create_subprocess_exec(
        *(program, "-plaintext", "-d", request, str(address), method),
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


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_grpcurl_consumes_and_acknowledges(program, broker, page):
    await broker.create_topic("orders")
    await broker.store("orders", [b"one espresso", b"one tea"])
    (receiving, acknowledging) = commands(page)
    (answer,) = await grpcurl(program, broker.address, *receiving)
    handles = [message["receipt_handle"] for message in answer["messages"]]
    assert len(handles) == 2
    request, method = acknowledging
    request = request.replace('["..."]', json.dumps(handles))
    (done,) = await grpcurl(program, broker.address, request, method)
    assert done == {"results": [{}, {}]}
    assert await grpcurl(program, broker.address, *receiving) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_the_requests_are_what_the_contract_takes(broker, page):
    """By the generated client, as grpcurl reads them: also where it cannot be had."""
    await broker.create_topic("orders")
    await broker.store("orders", [b"one espresso", b"one tea"])
    (receiving, received), (acknowledging, acknowledged) = commands(page)
    assert received == "ariane.broker.v1.ReceiveService/ReceiveMessages"
    assert acknowledged == "ariane.broker.v1.ReceiveService/AckMessages"
    request = Parse(receiving, receive_pb.ReceiveMessagesRequest())
    handles = [
        message.receipt_handle
        async for answer in broker.receives.ReceiveMessages(request)
        for message in answer.messages
    ]
    assert len(handles) == 2
    request = acknowledging.replace('["..."]', json.dumps(handles))
    done = await broker.receives.AckMessages(Parse(request, receive_pb.AckMessagesRequest()))
    assert not any(result.HasField("error") for result in done.results)
