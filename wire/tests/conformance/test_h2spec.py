"""h2spec, a tester of HTTP/2 that is not ours, against our server."""

from __future__ import annotations

import asyncio
import re
from xml.etree import ElementTree as ET

from go_programs import go_program
from interop_service import serving_interop

import ariane_wire

PARTS = ("generic", "http2", "hpack")
TEST_S = "2"
"""How long one of its tests waits for what it expects."""

NO_TABLE = (
    "It sets the dynamic table to 128 octets although our SETTINGS, which it has acknowledged, "
    "allow none: RFC 7541, section 6.3, has that be an error."
)
EXCEPTIONS = {
    "generic/5: Sends a dynamic table size update": NO_TABLE,
    "generic/5: Sends multiple dynamic table size update": NO_TABLE,
}
"""Tests that our server does not pass, and why that is right."""


async def test_every_part_of_h2spec_passes_but_the_exceptions(tmp_path):
    h2spec = go_program("h2spec")
    report = tmp_path / "report.xml"
    async with serving_interop(ariane_wire) as address:
        host, port = address.split(":")
        process = await asyncio.create_subprocess_exec(
            h2spec,
            *PARTS,
            *("--host", host, "--port", port, "--timeout", TEST_S, "--junit-report", str(report)),
            *("--path", "/grpc.testing.TestService/EmptyCall"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    # It writes what it has received as it is, which is no XML.
    text = re.sub(r"[^\t\n\x20-\x7e]", "?", report.read_text(errors="replace"))
    cases = ET.fromstring(text).iter("testcase")  # noqa: S314 - h2spec's own file.
    failures = {}
    count = 0
    for case in cases:
        count += 1
        name = f"{case.get('package')}: {case.get('classname')}"
        if case.find("error") is not None or case.find("failure") is not None:
            failures[name] = "".join(case.itertext()).strip()
            # A frame of its own met our close: it looks for this error in a form that Go has left.
            if re.search("Connection closed(.|\n)*connection reset by peer", failures[name]):
                del failures[name]
    assert count >= 140, said.decode(errors="replace")
    assert failures.keys() == EXCEPTIONS.keys(), failures
