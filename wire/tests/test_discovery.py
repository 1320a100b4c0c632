"""Addresses from DNS, files and URLs, read again and again."""

import asyncio
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


async def test_a_name_stands_for_all_its_addresses(monkeypatch):
    async def resolve(host, port, **_options):
        assert (host, port) == ("names.example", 9876)
        return [(2, 1, 6, "", (each, port)) for each in ("10.0.0.2", "10.0.0.1", "10.0.0.2")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    sources = AddressSources(["dns:names.example:9876"])
    assert await sources.read() == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert not is_source("names.example:9876")
    broken = AddressSources(["dns:names.example"])
    assert await broken.read() == ()
    assert "dns:names.example" in broken.errors["dns:names.example"]
