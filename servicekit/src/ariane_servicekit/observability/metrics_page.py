"""The page that Prometheus reads: ``GET /metrics``, served by threads of its own.

What the process itself uses comes from a registry of Prometheus' client; all other values are
written on the event loop, see ``measures``.
"""

from __future__ import annotations

import gzip
import socket
import ssl
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from ariane_servicekit.addresses import Address
from ariane_servicekit.errors import StartRefused
from ariane_servicekit.observability.measures import TELLS_APART, Measures
from ariane_wire.server.host_places import HostPlaces
from ariane_wire.transport.peers import host_of, peer_text

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_HANDSHAKE_S_MAX: Final = 5.0

_SILENT_S_MAX: Final = 60.0
"""How long a peer that sends nothing holds its thread."""

CONNECTIONS_MAX: Final = 64
"""Connections at a time, each with its thread; further ones are closed at once."""

CONNECTIONS_OF_HOST_MAX: Final = 8
"""How many of these one host may have: a reader needs one."""


class MetricsPage:
    """Serves the page until it is closed."""

    def __init__(
        self,
        listen: Address,
        registry: CollectorRegistry,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Serve what the registry has.

        Args:
            listen: Where.
            registry: What the process uses.
            tls: Gives the context of the next connection; None for plain text.

        Raises:
            StartRefused: The port is in use.
        """
        self._registry = registry
        self._measures: Measures | None = None
        try:
            self._server = _server(listen, self, tls)
        except OSError as error:
            raise StartRefused(f"cannot serve metrics on {listen}: {error.strerror}") from error
        self.address = Address(listen.host, self._server.server_port)
        """Where."""
        self._thread = Thread(target=self._server.serve_forever, name="metrics-page", daemon=True)
        self._thread.start()

    def serve(self, measures: Measures) -> None:
        """Serve these values, too."""
        self._measures = measures

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def text(self) -> Iterable[bytes]:
        """The page in parts; call it in another thread than the loop's."""
        from prometheus_client import generate_latest  # noqa: PLC0415 - see ``exports``

        TELLS_APART.set(True)
        yield generate_latest(self._registry)
        if self._measures is not None:
            yield self._measures.text().encode()


def _server(
    listen: Address, page: MetricsPage, tls: Callable[[], ssl.SSLContext] | None
) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SILENT_S_MAX

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in {"/", "/metrics"}:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = b"".join(page.text())
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            if "gzip" in self.headers.get("Accept-Encoding", ""):
                body = gzip.compress(body, compresslevel=1)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not each scrape is worth a line."""

    [(family, *_), *_] = socket.getaddrinfo(
        listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )

    return _Server((listen.host, listen.port), Handler, family, tls)


class _Server(ThreadingHTTPServer):
    """A thread for each connection, and so many at most."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        family: socket.AddressFamily,
        tls: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        self.address_family = family
        self._tls = tls
        self._places = HostPlaces(CONNECTIONS_MAX, CONNECTIONS_OF_HOST_MAX)
        super().__init__(address, handler)

    @override
    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._places.enter(_host_at(client_address))

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.leave(_host_at(client_address))
            raise

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            self._answer(request, client_address)
        finally:
            self._places.leave(_host_at(client_address))

    def _answer(self, request: Any, client_address: Any) -> None:
        """Answer a connection, in its thread: a handshake that never ends holds nobody else up."""
        if self._tls is not None:
            try:
                request.settimeout(_HANDSHAKE_S_MAX)
                request = self._tls().wrap_socket(request, server_side=True)
            except (OSError, ValueError):
                self.shutdown_request(request)
                return
        super().process_request_thread(request, client_address)


def _host_at(client_address: Any) -> str:
    """The host that a client counts for."""
    return host_of(peer_text(client_address[0], client_address[1]))
