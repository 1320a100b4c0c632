"""Addresses from DNS, files and URLs, read again and again."""

import asyncio
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ariane_wire import AddressSources, is_source


@pytest.fixture
def page():
    """A list of addresses by HTTP, and its content."""
    content = ["10.0.0.1:9876;10.0.0.2:9876\n"]

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content[0].encode())

        def log_message(self, *_words):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/names", content
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_proxy_in_the_environment_is_not_asked(page, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    url, _ = page
    assert await AddressSources([url]).read() == ("10.0.0.1:9876", "10.0.0.2:9876")


async def test_sources_are_read_again_and_keep_what_they_had(tmp_path, page):
    url, content = page
    path = tmp_path / "names"
    path.write_text("# ours\n10.0.0.2:9876, 10.0.0.3:9876\n\n[::1]:9876\n")
    sources = AddressSources(["10.0.0.9:1", f"file:{path}", url])
    assert (sources.addresses, sources.is_fixed) == (("10.0.0.9:1",), False)
    assert await sources.read() == (
        *("10.0.0.9:1", "10.0.0.2:9876", "10.0.0.3:9876", "[::1]:9876"),
        "10.0.0.1:9876",
    )
    path.write_text("10.0.0.4:9876")
    content[0] = "<html>no such page</html>"
    assert await sources.read() == (
        *("10.0.0.9:1", "10.0.0.4:9876", "10.0.0.1:9876", "10.0.0.2:9876"),
    )
    assert list(sources.errors) == [url]
    assert "is no host:port" in sources.errors[url]
    path.unlink()
    content[0] = "10.0.0.7:1"
    assert await sources.read() == ("10.0.0.9:1", "10.0.0.4:9876", "10.0.0.7:1")
    assert list(sources.errors) == [f"file:{path}"]


def test_a_file_that_hangs_does_not_keep_the_program_from_ending(tmp_path):
    os.mkfifo(tmp_path / "names")  # As a file of a server that is away: whoever reads it waits.
    program = (
        "import asyncio, sys\n"
        "from ariane_wire import AddressSources, discovery\n"
        "discovery.READ_S_MAX = 0.01\n"
        "sources = AddressSources(['10.0.0.1:9876', sys.argv[1]])\n"
        "for _ in range(2):\n"
        "    print(asyncio.run(sources.read()), sources.errors)\n"
    )
    command = [sys.executable, "-c", program, f"file:{tmp_path / 'names'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("('10.0.0.1:9876',)")
    assert "names: it takes longer than 0.01 s" in first
    assert "names: the reading before has not ended" in second


async def test_a_name_stands_for_all_its_addresses(monkeypatch):
    async def resolve(host, port, **_options):
        assert (host, port) == ("names.example", 9876)
        return [(2, 1, 6, "", (each, port)) for each in ("10.0.0.2", "10.0.0.1", "10.0.0.2")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    sources = AddressSources(["dns:names.example:9876"])
    assert await sources.read() == ("10.0.0.1:9876", "10.0.0.2:9876")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dns:names.example:9876", True),
        ("dns:[::1]:9876", True),
        ("file:names", True),
        ("https://names.example", True),
        ("http://names.example:80/list?of=all", True),
        ("names.example:9876", False),
        ("dns:names.example", False),
        ("dns:names.example:0", False),
        ("dns:names.example:65536", False),
        ("file:", False),
        ("http://", False),
        ("http://names.example/a b", False),
        ("ftp://names.example/list", False),
    ],
)
def test_what_can_never_be_read_is_no_source(text, expected):
    assert is_source(text) is expected


@pytest.mark.parametrize("content", ["10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1"])
async def test_a_list_with_a_port_that_there_cannot_be_is_not_believed(page, content):
    url, pages = page
    pages[0] = f"10.0.0.2:1 {content}"
    sources = AddressSources([url])
    assert await sources.read() == ()
    assert sources.errors[url] == f"{url}: {content!r} is no host:port"


async def test_a_server_that_speaks_no_http_is_a_source_that_cannot_be_read():
    async def answer(_reader, writer):
        writer.write(b"\x00\x00\x00\x04\x00\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        sources = AddressSources([url])
        assert await sources.read() == ()
    assert sources.errors[url].startswith(f"{url}: it answers no HTTP that can be read: BadStatus")
