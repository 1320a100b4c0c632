"""A name server was away for long, and is found as soon as it is back."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import grpc
import pytest
from languages import COMMANDS, Refused, Worker, build, missing
from typing_extensions import override

from ariane.namesrv.v1.route_service_pb2_grpc import (
    RouteServiceServicer,
    add_RouteServiceServicer_to_server,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AWAY_S = 12.0
"""By then gRPC, left to itself, would try every ten seconds, and later every two minutes."""

FOUND_S = 6.0


class NobodyHome:
    """A port where every connection is closed at once."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.knocks = 0
        self._answering = Thread(target=self._answer, daemon=True)
        self._answering.start()

    def _answer(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # It was closed.
            self.knocks += 1
            connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._answering.join()


class Unimpressed(RouteServiceServicer):
    """A name server that has nothing to tell."""

    @override
    def GetRoute(self, request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.NOT_FOUND, "no such topic")


def found_after_s(language: str) -> float:
    """How long after its return the client has found the name server."""
    message = {
        "topic": "t",
        "body": "",
        "tag": "",
        "keys": [],
        "group": "",
        "properties": {},
        "id": "",
    }
    away = NobodyHome()
    with ThreadPoolExecutor() as pool, Worker(language) as worker:
        worker.ask("connect", name_servers=[f"127.0.0.1:{away.port}"])
        begin = time.monotonic()
        sending = pool.submit(worker.ask, "send", messages=[message])
        time.sleep(AWAY_S)
        knocks = away.knocks
        while away.knocks == knocks:
            assert time.monotonic() < begin + 60
            time.sleep(0.01)
        away.close()  # Just after a try: the next one is as far away as it gets.
        server = grpc.server(pool)
        add_RouteServiceServicer_to_server(Unimpressed(), server)
        assert server.add_insecure_port(f"127.0.0.1:{away.port}") == away.port
        server.start()
        back = time.monotonic()
        with pytest.raises(Refused, match="no such topic"):
            sending.result(60)
        server.stop(None)
        return time.monotonic() - back


def test_who_comes_back_is_found_soon():
    here = [each for each in COMMANDS if each != "python" and not missing(each)]
    if not here:
        pytest.skip("no other language is on this machine")
    for language in here:
        build(language)
    with ThreadPoolExecutor() as pool:
        found = dict(zip(here, pool.map(found_after_s, here), strict=True))
    assert max(found.values()) < FOUND_S, found
