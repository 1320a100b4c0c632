"""A proxy in a client's environment, as Docker sets one: a client calls its cluster directly."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from languages import Worker, build, missing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MESSAGE: dict[str, Any] = {
    **dict.fromkeys(("tag", "group", "id"), ""),
    "body": "b3JkZXI=",
    "keys": [],
    "properties": {},
    "priority": 0,
}


@pytest.fixture
def proxy() -> Iterator[socket.socket]:
    """Accepts connections, and answers none."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(0.0)
        yield listening


def environment(port: int) -> dict[str, str]:
    """What each language looks at; nothing is excepted, not even this machine."""
    address = f"http://127.0.0.1:{port}"
    variables = ("grpc_proxy", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    # Java looks at its own properties; "http.nonProxyHosts" is what it excepts for HTTPS, too.
    properties = {
        "https.proxyHost": "127.0.0.1",
        "https.proxyPort": port,
        "http.nonProxyHosts": "",
    }
    return {
        **dict.fromkeys(variables, address),
        **dict.fromkeys(("no_grpc_proxy", "no_proxy", "NO_PROXY"), ""),
        "JAVA_TOOL_OPTIONS": " ".join(f"-D{name}={value}" for name, value in properties.items()),
    }


@pytest.mark.parametrize("language", ["python", "go", "java", "typescript"])
def test_a_proxy_in_the_environment_isolates_no_client(language, cluster, topics, proxy):
    if lacks := missing(language):
        pytest.skip(f"{lacks} is not on this machine")
    build(language)
    topic = f"proxied-{language}"
    topics.create_topic(topic, queue_count=1)
    with Worker(language, environment=environment(proxy.getsockname()[1])) as worker:
        name_servers = cluster.name_servers
        if language == "go":
            # It asks no proxy for an address of its own machine, whatever it is told; this one it
            # does not take for one.
            name_servers = name_servers.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - asked for.
        worker.ask("connect", name_servers=name_servers.split(","))
        worker.ask("send", messages=[MESSAGE | {"topic": topic}])
        come: list[Any] = []
        while not come:
            come = worker.ask("receive", topic=topic, group=topic, wait_ms=2000)
        worker.ask("ack", numbers=[each["number"] for each in come])
    with pytest.raises(BlockingIOError):
        proxy.accept()
